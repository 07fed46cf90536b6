"""JSON values as data: copied, compared and printed as the reference server does."""

from __future__ import annotations

from json import dumps as _dumps
from typing import Any


def copy_json(value: Any) -> Any:
    """Return a deep copy; scalars are shared."""
    kind = type(value)
    if kind is dict:
        return {key: copy_json(item) if type(item) in _CONTAINERS else item for key, item in value.items()}
    if kind is list:
        return [copy_json(item) if type(item) in _CONTAINERS else item for item in value]
    return value


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; unlike `==`, 1 is neither true nor 1.0."""
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


def type_name(value: Any) -> str:
    """Return the JSON type of a value, telling integers from numbers."""
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
