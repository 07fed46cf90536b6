"""JSON values: copied, compared and printed as kube-apiserver does."""

import re
from json import dumps as _dumps
from typing import Any

import orjson

MAX_DEPTH = 200
"""Levels of JSON that are read: orjson writes 254, and functions that recurse have about five hundred."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # or what has no end
_AS_LIST = bytes.maketrans(b"{}", b"[]")
_OTHER_BYTES = bytes(set(range(256)) - set(b"[]{}"))
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}"]', re.DOTALL)


def copy_json(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {key: copy_json(item) if type(item) in _CONTAINERS else item for key, item in value.items()}
    if kind is list:
        return [copy_json(item) if type(item) in _CONTAINERS else item for item in value]
    return value


def trimmed(encoded: bytes) -> bytes:
    """Return encoded JSON in a buffer of its own size, for callers that keep it.

    An encoder's result refers to its whole buffer: with orjson often ten times the size.
    """
    return bytes(memoryview(encoded))


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; unlike `==`, 1 is neither true nor 1.0."""
    if one is other:
        return True
    if one != other:
        return False
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        return all(same_json(item, other[key]) for key, item in one.items())
    if kind is list:
        return all(map(same_json, one, other))
    return True


def show(value: Any) -> str:
    """Print a value as it appears in a message: compact, keys sorted."""
    return _dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)


def encode_identity(value: Any) -> bytes:
    """Encode a value so that the same JSON always gives the same bytes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits
        return show(value).encode()


def is_deeper_than(value: Any, limit: int) -> bool:
    """Whether a value is nested deeper than so many levels; does not recurse."""
    level = [value]
    for _ in range(limit):
        containers = [item for item in level if type(item) in _CONTAINERS]
        if not containers:
            return False
        level = [below for item in containers for below in (item.values() if type(item) is dict else item)]
    return any(type(item) in _CONTAINERS for item in level)


def limit_depth(raw: bytes) -> bytes:
    """Return encoded JSON with null for what is nested too deeply to be decoded; most is returned as it is.

    kube-apiserver stores ten thousand levels, also in `managedFields`; decoders refuse from about a thousand on, at the
    price of everything else that came in the same answer.
    """
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH or not _may_be_deep(raw):
        return raw
    pieces, depth, copied = [], 0, 0
    for token in _STRUCTURE.finditer(raw):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth == MAX_DEPTH + 1:
                    pieces += [raw[copied : token.start()], b"null"]
            case b"}" | b"]":
                if depth == MAX_DEPTH + 1:
                    copied = token.end()
                depth -= 1
            case b'"':
                return raw  # a string without an end: no JSON
    return b"".join((*pieces, raw[copied:])) if pieces else raw


def _may_be_deep(raw: bytes) -> bool:
    """Whether brackets are left after those of the innermost containers were removed, again and again."""
    brackets = _STRING.sub(b"", raw).translate(_AS_LIST, _OTHER_BYTES)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True


def go_print(value: Any) -> str:
    if type(value) is dict:
        return f"map[{' '.join(f'{key}:{go_print(value[key])}' for key in sorted(value))}]"
    if type(value) is list:
        return f"[{' '.join(map(go_print, value))}]"
    return "<nil>" if value is None else str(value).lower() if type(value) is bool else str(value)


def type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "object")


_CONTAINERS = frozenset((dict, list))
_TYPE_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
