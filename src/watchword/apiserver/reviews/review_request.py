"""Reading a review from a request and answering it, the same way for each kind."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.apiserver import errors
from watchword.apiserver.bodies import JSON, decode_body, duplicate_fields, media_type
from watchword.apiserver.model import HandlerRequest, Now, Operation, ResourceKind, User
from watchword.apiserver.negotiation import object_response
from watchword.apiserver.registry.options import read_write_request
from watchword.apiserver.registry.pipeline import ManagedFieldsTracker, WriteRequest, prune_and_default


class ReviewRequest(Struct, frozen=True):
    """A review as its client sent it, and the requested format of the response."""

    review: Object
    call: WriteRequest


def read_review_request(request: HandlerRequest, kind: ResourceKind) -> ReviewRequest:
    """Return the review in the body; 405 for other verbs, 400 when it is of another kind or namespace."""
    if request.method != "POST":
        raise errors.verb_not_allowed()
    body = decode_body(request)
    _require_kind(body, kind.resource)
    call = read_write_request(request, options_kind="CreateOptions")
    prune_and_default(kind, body, call, duplicate_fields(request.body, body) if _is_json(request) else [])
    metadata = body["metadata"]
    namespace = request.info.namespace
    if metadata.get("namespace") not in {None, "", namespace}:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if kind.resource.namespaced:
        metadata["namespace"] = namespace
    head = {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version}
    return ReviewRequest({**head, **body, "metadata": _metadata_of(metadata)}, call)


def track(review_request: ReviewRequest, kind: ResourceKind, now: Now, subresource: str = "") -> None:
    """Set managedFields of the review: the server does so for everything that is created."""
    operation = Operation(
        "create",
        kind,
        ObjectKey("", ""),
        review_request.call.user,
        new=review_request.review,
        old=None,
        subresource=subresource,
    )
    ManagedFieldsTracker(now).track(operation, review_request.call)


def _metadata_of(metadata: Object) -> Object:
    return {key: value for key, value in metadata.items() if value is not None}


def _is_json(request: HandlerRequest) -> bool:
    return media_type(request.header("content-type")) == JSON


def _require_kind(body: Object, resource: Resource) -> None:
    kind, api_version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if (kind, api_version) != (resource.kind, resource.api_version):
        version = str(api_version).rpartition("/")[2]
        package = resource.group.partition(".")[0]
        raise errors.bad_request(
            f"{kind} in version {errors.quote(version)} cannot be handled as a {resource.kind}: "
            f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        )


def review_response(request: HandlerRequest, review: Object, warnings: list[str] | None = None) -> Response:
    """Return the completed review: 201, although nothing was created."""
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
    """Return the non-empty fields: empty texts are left out of responses."""
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
