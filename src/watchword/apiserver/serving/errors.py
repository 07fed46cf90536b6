"""Refusals with Kubernetes' messages: constructors for the reasons that several callers use.

ApiError (model.py) carries code, reason, message and details; `status_object` turns it into the body.
"""

from collections.abc import Iterable, Sequence

import orjson

from watchword.api.limits import MAX_BODY_BYTES
from watchword.api.meta import Object, Resource
from watchword.apiserver.serving.model import ApiError, FieldError, without_empty


def quote(text: str) -> str:
    return orjson.dumps(text).decode()


def status_object(error: ApiError) -> Object:
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    details = {} if error.details is None else {"details": error.details}
    return {
        **status,
        "message": error.message,
        **without_empty({"reason": error.reason}),
        **details,
        "code": error.code,
    }


def success(resource: Resource, name: str, uid: str) -> Object:
    details = {**_details(resource, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f"{resource.group_resource} {quote(name)} not found", _details(resource, name))


def resource_not_found() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f"{resource.group_resource} {quote(name)} already exists"
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, message: str) -> ApiError:
    text = f"Operation cannot be fulfilled on {resource.group_resource} {quote(name)}: {message}"
    return ApiError(409, "Conflict", text, _details(resource, name))


def forbidden(resource: Resource | None, name: str, message: str) -> ApiError:
    if resource is None:
        return ApiError(403, "Forbidden", f"forbidden: {message}", {})
    subject = f"{resource.group_resource} {quote(name)}" if name else resource.group_resource
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {message}", _details(resource, name))


def invalid(resource: Resource, name: str, errors: Iterable[FieldError]) -> ApiError:
    """422: the object breaks rules of its kind; every broken rule becomes a cause."""
    return invalid_kind(resource.group, resource.kind, name, errors)


def invalid_kind(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> ApiError:
    found = list(errors)
    texts = list(dict.fromkeys(str(error) for error in found))
    qualified = f"{kind}.{group}" if group else kind
    message = f"{qualified} {quote(name)} is invalid"
    if texts:
        message += f": {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}"
    causes = [{"reason": e.reason, "message": e.message, "field": e.path} for e in found]
    details = {**without_empty({"name": name, "group": group, "kind": kind}), "causes": causes}
    return ApiError(422, "Invalid", message, details)


class WrongFieldType(ApiError):
    """400: a value of the body has another type than its field; in a patch, the patch is at fault (422)."""

    def __init__(self, head: str, complaint: str, *, found: str = "", wanted: str = "") -> None:
        super().__init__(400, "BadRequest", f"{head}: {complaint}")
        self.complaint = complaint
        self.found = found  # the JSON type of the value
        self.wanted = wanted  # the type of the field, as Go names it


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def method_not_allowed(resource: Resource, verb: str) -> ApiError:
    message = f"{verb} is not supported on resources of kind {quote(resource.group_resource)}"
    return ApiError(405, "MethodNotAllowed", message, _details(resource, ""))


def verb_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(accepted)}")


def no_representation(accepted: Sequence[str]) -> ApiError:
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return ApiError(415, "UnsupportedMediaType", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large(limit: int = MAX_BODY_BYTES) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_many_requests(retry_after: int, message: str = "too many requests, please try again later") -> ApiError:
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after})


def internal(message: str) -> ApiError:
    """500: the server is at fault; the message must not reveal secrets."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def out_of_memory() -> ApiError:
    """503: the request may succeed once other requests have ended."""
    message = "the server has not enough memory for this request now, please try again later"
    return ApiError(503, "ServiceUnavailable", message, {"retryAfterSeconds": 5})


def server_timeout(resource: Resource, operation: str) -> ApiError:
    """500: the operation could not finish now; trying again may help."""
    message = (
        f"The {operation} operation against {resource.group_resource} "
        "could not be completed at this time, please try again."
    )
    return ApiError(500, "ServerTimeout", message, {**_details(resource, operation), "retryAfterSeconds": 1})


def _details(resource: Resource, name: str) -> Object:
    return without_empty({"name": name, "group": resource.group, "kind": resource.plural})
