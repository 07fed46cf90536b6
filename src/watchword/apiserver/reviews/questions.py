"""Reading a review from a request and answering it, the same way for each kind."""

from __future__ import annotations

from typing import Any

from watchword.api.http import Response
from watchword.api.meta import Object, Resource
from watchword.apiserver import errors
from watchword.apiserver.bodies import decode_body
from watchword.apiserver.model import ApiError, HandlerRequest, User
from watchword.apiserver.negotiation import object_response


def read_question(request: HandlerRequest, resource: Resource) -> Object:
    """Return the review in the body; 405 for other verbs, 400 when it is of another kind or namespace."""
    if request.method != "POST":
        message = "the server does not allow this method on the requested resource"
        raise ApiError(405, "MethodNotAllowed", message, {})
    body = decode_body(request)
    _require_kind(body, resource)
    for field in ("metadata", "spec", "status"):
        if not isinstance(body.get(field) or {}, dict):
            raise errors.bad_request(f"{resource.kind} in version {resource.version!r}: {field} must be an object")
    metadata = dict(body.get("metadata") or {})
    namespace = request.info.namespace
    if metadata.get("namespace") not in {None, "", namespace}:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if resource.namespaced:
        metadata["namespace"] = namespace
    return {"kind": resource.kind, "apiVersion": resource.api_version, **body, "metadata": metadata}


def _require_kind(body: Object, resource: Resource) -> None:
    kind, api_version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if (kind, api_version) == (resource.kind, resource.api_version):
        return
    version = str(api_version).rpartition("/")[2]
    package = resource.group.partition(".")[0]
    raise errors.bad_request(
        f"{kind} in version {errors.quote(version)} cannot be handled as a {resource.kind}: "
        f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    )


def answer(request: HandlerRequest, review: Object, warnings: list[str] | None = None) -> Response:
    """Return the answered review: 201, although nothing was created."""
    return object_response(request, review, 201, warnings)


def user_info(user: User) -> Object:
    """Write a user as reviews show it."""
    info: Object = {}
    for key, value in (("username", user.name), ("uid", user.uid), ("groups", list(user.groups))):
        if value:
            info[key] = value
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def filled(row: Object) -> Object:
    """Return the fields that say something: empty texts are left out of answers."""
    return {key: filled(value) if isinstance(value, dict) else value for key, value in row.items() if value != ""}


def texts(value: Any, path: str) -> tuple[str, ...]:
    """Read a list of texts; 400 for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise errors.bad_request(f"{path} must be a list of strings")
    return tuple(value)


def text(value: Any, path: str) -> str:
    """Read a text; 400 for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise errors.bad_request(f"{path} must be a string")
    return value


def mapping(value: Any, path: str) -> Object:
    """Read an object, empty when absent; 400 for anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.bad_request(f"{path} must be an object")
    return value
