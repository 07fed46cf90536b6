"""Serves the scale endpoint: a workload's size, read and written as a Scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey
from watchword.apiserver.bodies import decode_body, decode_json, media_type
from watchword.apiserver.errors import bad_request, invalid, unsupported_media_type
from watchword.apiserver.kinds.messages import schemas, typed
from watchword.apiserver.kinds.scale import SCALES, Paths, resize, scale_errors, scale_of
from watchword.apiserver.model import HandlerRequest, ResourceKind
from watchword.apiserver.negotiation import object_response
from watchword.apiserver.patching.json_patch import apply_json_patch
from watchword.apiserver.patching.merge_patch import apply_merge_patch
from watchword.apiserver.patching.strategic import apply_strategic_patch
from watchword.apiserver.registry.options import read_write_request
from watchword.apiserver.registry.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from watchword.apiserver.registry.registry import Verbs
from watchword.apiserver.registry.update import UpdateTarget

MESSAGE = "io.k8s.api.autoscaling.v1.Scale"
_LANGUAGES: dict[str, Callable[[Object, Any], Object]] = {
    JSON_PATCH: apply_json_patch,
    MERGE_PATCH: apply_merge_patch,
    STRATEGIC_PATCH: lambda scale, patch: apply_strategic_patch(scale, patch, schemas().of_kind(MESSAGE)),
}


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
        change = _replacement(request) if request.info.verb == "update" else _patch(request)
        target = UpdateTarget(kind, key, "scale", request.info.verb)
        options = "UpdateOptions" if request.info.verb == "update" else "PatchOptions"
        call = read_write_request(request, options_kind=options)
        answer = await self.verbs.update.revise(target, _revised(kind, key, change, paths), call)
        return object_response(request, scale_of(orjson.loads(answer.body), paths))


def _replacement(request: HandlerRequest) -> Callable[[Object], Object]:
    return lambda _: decode_body(request)


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
