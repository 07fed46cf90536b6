"""The verb patch: part of an object, in one of four languages."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.json import go_print
from watchword.api.meta import Object
from watchword.apiserver.bodies import decode_json, decode_yaml, duplicate_fields, media_type, require_object
from watchword.apiserver.errors import WrongFieldType, bad_request, conflict, invalid_kind, unsupported_media_type
from watchword.apiserver.field_errors import invalid, printed
from watchword.apiserver.model import ApiError, HandlerRequest, ResourceKind
from watchword.apiserver.registry.body_identity import require_name, require_namespace, require_type
from watchword.apiserver.registry.create import Create
from watchword.apiserver.registry.pipeline import (
    StrictDecoding,
    VerbResult,
    WriteRequest,
    prune_and_default,
    reset_fields,
)
from watchword.apiserver.registry.update import Update, UpdateTarget

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
Merge = Callable[[Object, Any, ResourceKind], Object]


class Apply(Struct, frozen=True):
    """Applies configurations; an object that is not there is created."""

    create: Create
    update: Update

    async def __call__(self, target: UpdateTarget, body: bytes, call: WriteRequest) -> VerbResult:
        """Apply one configuration; 409 when it would take fields that other managers own."""
        config = _read(target, body)
        call = replace(call, applied=True)

        def revise(live: Object) -> Object:
            new = self._applied(target, live, config, call)
            said = (config["metadata"]).get("resourceVersion")
            new["metadata"]["resourceVersion"] = said or live["metadata"]["resourceVersion"]
            return new

        try:
            return await self.update.revise(target, revise, call)
        except ApiError as refusal:
            if refusal.reason != "NotFound" or target.subresource:
                raise
        call.may_create()
        _require_no_uid(target, config)
        new = self._applied(target, None, config, call)
        new["metadata"].pop("resourceVersion", None)
        return await self.create(target.kind, target.key.namespace, new, call)

    def _applied(self, target: UpdateTarget, live: Object | None, config: Object, call: WriteRequest) -> Object:
        from watchword.apiserver.fieldmanager.apply import apply

        kind = target.kind
        new = apply(
            live,
            config,
            kind.schema,
            manager=call.manager,
            force=call.force,
            now=self.update.tools.now(),
            subresource=target.subresource,
            reset=reset_fields(kind, target.subresource),
        )
        prune_and_default(kind, new, call)
        return new


def _read(target: UpdateTarget, body: bytes) -> Object:
    config = require_object(decode_yaml(body))
    if not config.get("apiVersion") or not config.get("kind"):
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind') or ''}")
    if not target.kind.custom and config["apiVersion"] != target.kind.resource.api_version:
        group, _, version = str(config["apiVersion"]).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={config['kind']}")
    require_type(target.kind, config)
    config["metadata"].setdefault("name", target.key.name)
    require_name(config, target.key)
    # What is not in the configuration must not be owned: the namespace is checked on a copy.
    require_namespace(target.kind, {"metadata": dict(config["metadata"])}, target.key.namespace)
    return config


def _require_no_uid(target: UpdateTarget, config: Object) -> None:
    uid = config["metadata"].get("uid")
    if uid:
        detail = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(target.kind.resource, target.key.name, detail)


def _json(document: Object, patch: Any, _: ResourceKind) -> Object:
    from watchword.apiserver.patching.json_patch import apply_json_patch

    return apply_json_patch(document, patch)


def _merge(document: Object, patch: Any, _: ResourceKind) -> Object:
    from watchword.apiserver.patching.json_patch import apply_merge_patch

    return apply_merge_patch(document, patch)


def _strategic(document: Object, patch: Any, kind: ResourceKind) -> Object:
    from watchword.apiserver.patching.strategic import apply_strategic_patch

    return apply_strategic_patch(document, patch, kind.schema)


_LANGUAGES: dict[str, Merge] = {JSON_PATCH: _json, MERGE_PATCH: _merge, STRATEGIC_PATCH: _strategic}


def patch_types(kind: ResourceKind) -> tuple[str, ...]:
    """Return the languages a kind understands; custom kinds have no strategy for lists."""
    if kind.custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def patch_type(request: HandlerRequest, kind: ResourceKind) -> str:
    """Return the language of a patch; 415 when the kind does not understand it."""
    media = media_type(request.header("content-type"))
    accepted = patch_types(kind)
    if media not in accepted:
        raise (
            unsupported_media_type(accepted)
            if kind.custom
            else ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        )
    return media


class PatchVerb(Struct, frozen=True):
    """Changes parts of objects."""

    update: Update
    apply: Apply

    async def __call__(self, target: UpdateTarget, media: str, body: bytes, call: WriteRequest) -> VerbResult:
        if media == APPLY_PATCH:
            return await self.apply(target, body, call)
        patch = decode_json(body, "error decoding patch: ")
        merge = _LANGUAGES[media]
        odd = _unknown_patch_fields(media, body, patch) if call.strictness != "Ignore" else []
        warnings = list(call.warnings)

        def revise(document: Object) -> Object:
            call.warnings[:] = warnings if call.strictness == "Strict" else [*warnings, *odd]
            new = merge(document, patch, target.kind)
            require_type(target.kind, new)
            require_name(new, target.key)
            require_namespace(target.kind, new, target.key.namespace)
            _conform_patched(target.kind, new, call, odd, patch if media == STRATEGIC_PATCH else None)
            return new

        return await self.update.revise(target, revise, call)


def _unknown_patch_fields(media: str, body: bytes, patch: Any) -> list[str]:
    if media != JSON_PATCH:
        return []
    from watchword.apiserver.patching.json_patch import unknown_operation_fields

    twice = [f'json patch duplicate field "{path}"' for path in duplicate_fields(body, patch) if path.count(".") == 1]
    return [*twice, *(f'json patch unknown field "{path}"' for path in unknown_operation_fields(patch))]


def _conform_patched(kind: ResourceKind, new: Object, call: WriteRequest, odd: list[str], strategic: Any) -> None:
    """Conform the result; here strictness and types refuse with 422, for the fault lies in the patch."""
    strict = call.strictness == "Strict"
    shown = printed(new) if strict or not kind.custom else ""
    try:
        prune_and_default(kind, new, call)
    except (StrictDecoding, WrongFieldType) as refusal:
        if strategic is not None and isinstance(refusal, WrongFieldType):
            shown, complaint = go_print(strategic), _type_mismatch_message(refusal)
        else:
            complaint = refusal.complaint
        raise invalid_kind("", "", "", [invalid("patch", shown, complaint)]) from None
    if strict and odd:
        raise invalid_kind("", "", "", [invalid("patch", shown, f"strict decoding error: {', '.join(odd)}")])


def _type_mismatch_message(misfit: WrongFieldType) -> str:
    source = {"array": "slice", "object": "map", "number": "int64"}.get(misfit.found, misfit.found)
    if misfit.wanted.startswith("[]"):
        return f"cannot restore slice from {source}"
    if misfit.wanted.startswith("map["):
        return f"cannot restore map from {source}"
    if "." in misfit.wanted:
        return f"cannot restore struct from: {source}"
    return f"unrecognized type: {misfit.wanted}" if misfit.found else misfit.complaint
