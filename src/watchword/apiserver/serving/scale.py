"""Serves the scale endpoint: a workload's size, read and written as a Scale."""

from collections.abc import Callable
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.apiserver import field_errors
from watchword.apiserver.bodies import decode_body, decode_json, media_type
from watchword.apiserver.errors import bad_request, invalid, unsupported_media_type
from watchword.apiserver.kinds.columns import at
from watchword.apiserver.kinds.metadata import printed_selector
from watchword.apiserver.kinds.schemas import kind_schema
from watchword.apiserver.kinds.typed import typed
from watchword.apiserver.model import FieldError, HandlerRequest, ResourceKind
from watchword.apiserver.negotiation import object_response
from watchword.apiserver.patching.json_patch import apply_json_patch, apply_merge_patch
from watchword.apiserver.registry.options import read_write_request
from watchword.apiserver.registry.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from watchword.apiserver.registry.registry import Verbs
from watchword.apiserver.registry.update import UpdateTarget

SCALES = Resource("autoscaling", "v1", "scales", "Scale")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")

Paths = tuple[str, str, str]
MESSAGE = "io.k8s.api.autoscaling.v1.Scale"


def _strategic(scale: Object, patch: Any) -> Object:
    from watchword.apiserver.patching.strategic import apply_strategic_patch

    return apply_strategic_patch(scale, patch, kind_schema(MESSAGE))


_LANGUAGES: dict[str, Callable[[Object, Any], Object]] = {
    JSON_PATCH: apply_json_patch,
    MERGE_PATCH: apply_merge_patch,
    STRATEGIC_PATCH: _strategic,
}


def scale_of(obj: Object, paths: Paths) -> Object:
    """Return the Scale of an object; what is absent counts as zero."""
    wanted, observed, selector = paths
    metadata = obj["metadata"]
    status: Object = {"replicas": at(obj, observed) or 0}
    found = at(obj, selector) if selector else None
    shown = found if isinstance(found, str) else printed_selector(found)
    if shown:
        status["selector"] = shown
    replicas = at(obj, wanted) or 0
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {name: metadata[name] for name in _IDENTITY if metadata.get(name)},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def resize(obj: Object, scale: Object, paths: Paths) -> None:
    """Set the object's replicas to those of the Scale, in place."""
    *parents, name = paths[0].split(".")
    target = obj
    for parent in parents:
        target = target.setdefault(parent, {})
    target[name] = (scale.get("spec") or {}).get("replicas") or 0


def scale_errors(scale: Object) -> list[FieldError]:
    """Validate a Scale: sizes are not negative."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        return [field_errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
    return []


class ScaleServer(Struct, frozen=True):
    """Turns Scales into changes of one number of the object behind them."""

    verbs: Verbs

    async def serve(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        """Handle get, update and patch."""
        paths = kind.scale_paths or ("spec.replicas", "status.replicas", "")
        key = ObjectKey(request.info.namespace, request.info.name)
        if request.info.verb == "get":
            record = await self.verbs.read.get(kind, key, request.parameter("resourceVersion"))
            obj: Object = orjson.loads(record.body)
            return object_response(request, scale_of(obj, paths))
        change = (lambda _: decode_body(request)) if request.info.verb == "update" else _patch(request)
        target = UpdateTarget(kind, key, "scale", request.info.verb)
        options = "UpdateOptions" if request.info.verb == "update" else "PatchOptions"
        call = read_write_request(request, options_kind=options)
        answer = await self.verbs.update.revise(target, _revised(kind, key, change, paths), call)
        return object_response(request, scale_of(orjson.loads(answer.body), paths))


def _patch(request: HandlerRequest) -> Callable[[Object], Object]:
    media = media_type(request.header("content-type"))
    if media not in _LANGUAGES:
        raise unsupported_media_type(tuple(_LANGUAGES))
    patch = decode_json(request.body)
    return lambda scale: _LANGUAGES[media](scale, patch)


def _revised(
    kind: ResourceKind, key: ObjectKey, change: Callable[[Object], Object], paths: Paths
) -> Callable[[Object], Object]:
    def revise(obj: Object) -> Object:
        scale = change(scale_of(obj, paths))
        typed().hook(SCALES, MESSAGE)(scale)
        name = scale["metadata"].get("name")
        if name != key.name:
            raise bad_request(f"the name of the object ({name or ''}) does not match the name on the URL ({key.name})")
        errors = scale_errors(scale)
        if errors and not kind.custom:  # a custom object validates its own count
            raise invalid(SCALES, key.name, errors)
        resize(obj, scale, paths)
        # An absent revision means that any will do; a given one must still be the stored one.
        obj["metadata"]["resourceVersion"] = scale["metadata"].get("resourceVersion") or ""
        return obj

    return revise
