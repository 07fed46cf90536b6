"""The verb patch: part of an object, in one of four languages."""

import re
from typing import Any, NoReturn

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.json import MAX_DEPTH, copy_json, go_print, is_deeper_than, same_json
from watchword.api.limits import MAX_BODY_BYTES
from watchword.api.meta import Object
from watchword.apiserver.serving import bodies, errors, pipeline, write
from watchword.apiserver.serving.field_errors import invalid, printed
from watchword.apiserver.serving.model import ApiError, HandlerRequest, ResourceKind

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = MAX_BODY_BYTES  # "copy" can double a document with every operation

_INDEX = re.compile(r"[+-]?\d{1,18}", re.ASCII)


def apply_json_patch(document: Object, operations: Any) -> Object:
    """Apply the operations in order, changing the document in place, and return the result.

    Raises 400 for what is not a patch, 413 for too many operations, 422 for one that does not apply:
    the caller's document is then half changed and must be thrown away.
    """
    if type(operations) is not list:
        raise _undecodable(operations, "[]handlers.jsonPatchOp")
    for operation in operations:
        _check_shape(operation)
    if len(operations) > MAX_OPERATIONS:
        allowed = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {allowed}")
    patch = _Patch(document)
    for operation in operations:
        patch.apply(operation if operation is not None else {})
    if type(patch.document) is not dict or is_deeper_than(patch.document, MAX_DEPTH):
        _refuse()
    return patch.document


def unknown_operation_fields(operations: Any) -> list[str]:
    known = {"op", "path", "from", "value"}
    return [
        f"[{index}].{key}"
        for index, operation in enumerate(operations if type(operations) is list else ())
        if type(operation) is dict
        for key in operation
        if key not in known
    ]


def _check_shape(operation: Any) -> None:
    if operation is None:
        return
    if type(operation) is not dict:
        raise _undecodable(operation, "handlers.jsonPatchOp")
    for key in ("op", "path", "from"):
        said = operation.get(key)
        if said is not None and type(said) is not str:
            raise errors.bad_request(
                f"error decoding patch: json: cannot unmarshal {bodies.json_type(said)} "
                f"into Go struct field jsonPatchOp.{key} of type string"
            )


def _undecodable(value: Any, wanted: str) -> ApiError:
    return errors.bad_request(
        f"error decoding patch: json: cannot unmarshal {bodies.json_type(value)} into Go value of type {wanted}"
    )


def _refuse() -> NoReturn:
    # kube-apiserver reports no details: the patch's author may lack the right to read the object.
    raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


class _Patch(Struct):
    document: Any
    copied_bytes: int = 0

    def apply(self, operation: dict[str, Any]) -> None:
        path, value = operation.get("path"), copy_json(operation.get("value"))
        match operation.get("op"):
            case "add":
                _insert(*self._find(path), value)
            case "remove":
                _take(*self._find(path))
            case "replace":
                self._replace(path, value)
            case "move":
                moved = _take(*self._find(operation.get("from")))
                _insert(*self._find(path), moved)
            case "copy":
                self._copy(operation.get("from"), path)
            case "test" if same_json(self.document if path == "" else _peek(*self._find(path)), value):
                pass
            case _:
                _refuse()

    def _replace(self, path: str | None, value: Any) -> None:
        if path == "":
            self.document = value if type(value) in (dict, list) else _refuse()
            return
        container, key = self._find(path)
        if type(container) is dict:
            container[key] = value  # a missing key is set, as kube-apiserver does
        else:
            container[_index(key, len(container))] = value

    def _copy(self, source: str | None, path: str | None) -> None:
        value = _peek(*self._find(source))
        container, key = self._find(path)
        if type(value) in (dict, list, str):
            self.copied_bytes += len(orjson.dumps(value, default=str))
        if self.copied_bytes > MAX_COPIED_BYTES:
            _refuse()
        _insert(container, key, copy_json(value))

    def _find(self, path: str | None) -> tuple[Any, str]:
        if path is None or "/" not in path:
            _refuse()
        _, *parts, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/"))
        container = self.document
        for part in parts:
            container = _peek(container, part)
        if type(container) is not dict and type(container) is not list:
            _refuse()
        return container, last


def _peek(container: Any, key: str) -> Any:
    if type(container) is dict:
        return container.get(key)
    if type(container) is list:
        return container[_index(key, len(container))]
    return _refuse()


def _insert(container: Any, key: str, value: Any) -> None:
    if type(container) is dict:
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1), value)


def _take(container: Any, key: str) -> Any:
    if type(container) is list:
        return container.pop(_index(key, len(container)))
    if key not in container:
        _refuse()
    return container.pop(key)


def _index(key: str, length: int) -> int:
    if not _INDEX.fullmatch(key):
        _refuse()
    index = int(key)
    if not -length <= index < length:
        _refuse()
    return index + length if index < 0 else index


def apply_merge_patch(document: Object, patch: Any) -> Object:
    """Merge a patch into the document, in place, and return it; null removes a field.

    Nothing of the patch is shared with the result, so the same patch can be tried again.
    """
    if patch is None:
        raise errors.bad_request("Invalid JSON Patch")
    if type(patch) is not dict:
        raise _undecodable(patch, "map[string]interface {}")
    _merge(document, patch)
    return document


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif type(value) is not dict:
            document[key] = copy_json(value)
        else:
            present = document.get(key)
            if type(present) is not dict:
                present = document[key] = {}
            _merge(present, value)


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
CUSTOM_PATCHES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
"""The languages that custom kinds understand, too: they have no strategy for lists."""


async def _apply(
    tools: pipeline.VerbDependencies, target: write.UpdateTarget, body: bytes, call: pipeline.WriteRequest
) -> pipeline.VerbResult:
    """Apply one configuration; 409 when it would take fields that other managers own."""
    from watchword.apiserver.serving.apply import apply

    config = _read(target, body)
    kind, call = target.kind, replace(call, applied=True)

    def applied(live: Object | None) -> Object:
        new = apply(
            live,
            config,
            kind.schema,
            manager=call.manager,
            force=call.force,
            now=tools.now(),
            subresource=target.subresource,
            reset=pipeline.reset_fields(kind, target.subresource),
        )
        pipeline.prune_and_default(kind, new, call)
        return new

    def revise(live: Object) -> Object:
        new = applied(live)
        said = config["metadata"].get("resourceVersion")
        new["metadata"]["resourceVersion"] = said or live["metadata"]["resourceVersion"]
        return new

    try:
        return await write.revise(tools, target, revise, call)
    except ApiError as refusal:
        if refusal.reason != "NotFound" or target.subresource:
            raise
    call.may_create()
    if uid := config["metadata"].get("uid"):
        detail = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(kind.resource, target.key.name, detail)
    new = applied(None)
    new["metadata"].pop("resourceVersion", None)
    return await write.create(tools, kind, target.key.namespace, new, call)


def _read(target: write.UpdateTarget, body: bytes) -> Object:
    config = bodies.require_object(bodies.decode_yaml(body))
    said, kind = str(config.get("apiVersion") or ""), config.get("kind") or ""
    if not said or not kind or (said != target.kind.resource.api_version and not target.kind.custom):
        group, _, version = said.rpartition("/")
        raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    write.require_type(target.kind, config)
    config["metadata"].setdefault("name", target.key.name)
    write.require_name(config, target.key)
    # What is not in the configuration must not be owned: the namespace is checked on a copy.
    write.require_namespace(target.kind, {"metadata": dict(config["metadata"])}, target.key.namespace)
    return config


def _merged(document: Object, changes: Any, media: str, kind: ResourceKind) -> Object:
    if media == JSON_PATCH:
        return apply_json_patch(document, changes)
    if media == MERGE_PATCH:
        return apply_merge_patch(document, changes)
    from watchword.apiserver.serving.strategic_patch import apply_strategic_patch

    return apply_strategic_patch(document, changes, kind.schema)


def patch_type(request: HandlerRequest, kind: ResourceKind) -> str:
    """Return the language of a patch; 415 when the kind does not understand it."""
    media = bodies.media_type(request.header("content-type"))
    if kind.custom and media not in CUSTOM_PATCHES:
        raise errors.unsupported_media_type(CUSTOM_PATCHES)
    if media not in {*CUSTOM_PATCHES, STRATEGIC_PATCH}:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return media


async def patch(
    tools: pipeline.VerbDependencies, target: write.UpdateTarget, media: str, body: bytes, call: pipeline.WriteRequest
) -> pipeline.VerbResult:
    """Change parts of an object; server-side apply may also create it."""
    if media == APPLY_PATCH:
        return await _apply(tools, target, body, call)
    changes = bodies.decode_json(body, "error decoding patch: ")
    odd = _unknown_patch_fields(media, body, changes) if call.strictness != "Ignore" else []
    warnings = list(call.warnings)

    def revise(document: Object) -> Object:
        call.warnings[:] = warnings if call.strictness == "Strict" else [*warnings, *odd]
        new = _merged(document, changes, media, target.kind)
        write.require_identity(target, new)
        _conform_patched(target.kind, new, call, odd, changes if media == STRATEGIC_PATCH else None)
        return new

    return await write.revise(tools, target, revise, call)


def _unknown_patch_fields(media: str, body: bytes, patch: Any) -> list[str]:
    if media != JSON_PATCH:
        return []
    twice = [
        f'json patch duplicate field "{path}"' for path in bodies.duplicate_fields(body, patch) if path.count(".") == 1
    ]
    return [*twice, *(f'json patch unknown field "{path}"' for path in unknown_operation_fields(patch))]


def _conform_patched(
    kind: ResourceKind, new: Object, call: pipeline.WriteRequest, odd: list[str], strategic: Any
) -> None:
    """Conform the result; here strictness and types refuse with 422, for the fault lies in the patch."""
    strict = call.strictness == "Strict"
    shown = printed(new) if strict or not kind.custom else ""
    try:
        pipeline.prune_and_default(kind, new, call)
    except (pipeline.StrictDecoding, errors.WrongFieldType) as refusal:
        if strategic is not None and isinstance(refusal, errors.WrongFieldType):
            shown, complaint = go_print(strategic), _type_mismatch_message(refusal)
        else:
            complaint = refusal.complaint
        raise errors.invalid_kind("", "", "", [invalid("patch", shown, complaint)]) from None
    if strict and odd:
        raise errors.invalid_kind("", "", "", [invalid("patch", shown, f"strict decoding error: {', '.join(odd)}")])


def _type_mismatch_message(misfit: errors.WrongFieldType) -> str:
    source = {"array": "slice", "object": "map", "number": "int64"}.get(misfit.found, misfit.found)
    if misfit.wanted.startswith("[]"):
        return f"cannot restore slice from {source}"
    if misfit.wanted.startswith("map["):
        return f"cannot restore map from {source}"
    if "." in misfit.wanted:
        return f"cannot restore struct from: {source}"
    return f"unrecognized type: {misfit.wanted}" if misfit.found else misfit.complaint
