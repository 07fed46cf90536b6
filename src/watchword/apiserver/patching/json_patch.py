"""JSON patch (RFC 6902), as lenient as kube-apiserver is and no more."""

import re
from collections.abc import Callable
from typing import Any, NoReturn

import orjson
from msgspec import Struct

from watchword.api.json import copy_json, is_deeper_than, same_json
from watchword.api.limits import MAX_BODY_BYTES
from watchword.api.meta import Object
from watchword.apiserver.bodies import json_type
from watchword.apiserver.errors import bad_request
from watchword.apiserver.model import ApiError

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = MAX_BODY_BYTES  # "copy" can double a document with every operation
MAX_DEPTH = 200  # as of a body: "move" can nest a document one level deeper with every operation

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
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {json_type(said)} "
                f"into Go struct field jsonPatchOp.{key} of type string"
            )


def _undecodable(value: Any, wanted: str) -> ApiError:
    return bad_request(
        f"error decoding patch: json: cannot unmarshal {json_type(value)} into Go value of type {wanted}"
    )


def _refuse() -> NoReturn:
    # kube-apiserver reports no details: the patch's author may lack the right to read the object.
    raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


class _Patch(Struct):
    document: Any
    copied_bytes: int = 0

    def apply(self, operation: dict[str, Any]) -> None:
        handle = _OPERATIONS.get(operation.get("op") or "")
        if handle is None:
            _refuse()
        handle(self, operation)

    def add(self, operation: dict[str, Any]) -> None:
        container, key = self._find(operation.get("path"))
        _insert(container, key, copy_json(operation.get("value")))

    def remove(self, operation: dict[str, Any]) -> None:
        _take(*self._find(operation.get("path")))

    def replace(self, operation: dict[str, Any]) -> None:
        value = copy_json(operation.get("value"))
        if operation.get("path") == "":
            if type(value) is not dict and type(value) is not list:
                _refuse()
            self.document = value
            return
        container, key = self._find(operation.get("path"))
        if type(container) is dict:
            container[key] = value  # a missing key is set, as kube-apiserver does
        else:
            container[_index(key, len(container))] = value

    def move(self, operation: dict[str, Any]) -> None:
        value = _take(*self._find(operation.get("from")))
        container, key = self._find(operation.get("path"))
        _insert(container, key, value)

    def copy(self, operation: dict[str, Any]) -> None:
        value = _peek(*self._find(operation.get("from")))
        container, key = self._find(operation.get("path"))
        if type(value) in (dict, list, str):
            self.copied_bytes += len(orjson.dumps(value, default=str))
        if self.copied_bytes > MAX_COPIED_BYTES:
            _refuse()
        _insert(container, key, copy_json(value))

    def test(self, operation: dict[str, Any]) -> None:
        path = operation.get("path")
        found = self.document if path == "" else _peek(*self._find(path))
        if not same_json(found, operation.get("value")):
            _refuse()

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


_OPERATIONS: dict[str, Callable[[_Patch, dict[str, Any]], None]] = {
    "add": _Patch.add,
    "remove": _Patch.remove,
    "replace": _Patch.replace,
    "move": _Patch.move,
    "copy": _Patch.copy,
    "test": _Patch.test,
}


def apply_merge_patch(document: Object, patch: Any) -> Object:
    """Merge a patch into the document, in place, and return it; null removes a field.

    Nothing of the patch is shared with the result, so the same patch can be tried again.
    """
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if type(patch) is not dict:
        found = json_type(patch)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
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
