"""What operators and functions of rules compute; arguments of a wrong type have no overload."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NoReturn

from watchword.api.json import same_json, show
from watchword.api.validation import DurationError, parse_duration
from watchword.cel.re2_patterns import compile_pattern


class CelError(Exception):
    """A rule could not be evaluated on this value."""


def no_overload() -> NoReturn:
    """Refuse arguments that the function has no meaning for."""
    raise CelError("no such overload")


def cel_type(value: Any) -> str:
    """Return what CEL calls the type of a value."""
    return _TYPES.get(type(value), "dyn")


def equal(one: Any, other: Any) -> bool:
    """Compare; numbers are equal across their types."""
    if (_is_number(one) and _is_number(other)) or type(one) is timedelta:
        return bool(one == other)
    return same_json(one, other)


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(one: Any, other: Any) -> bool:
        if (_is_number(one) and _is_number(other)) or (type(one) is type(other) and type(one) in _ORDERED):
            return test(one, other)
        return no_overload()

    return compared


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(one: Any, other: Any) -> Any:
        if type(one) is not type(other) or not _is_number(one):
            no_overload()
        return _in_range(compute(one, other))

    return computed


def _in_range(value: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise CelError("integer overflow")
    return value


def _add(one: Any, other: Any) -> Any:
    if type(one) is type(other) and type(one) in (str, list):
        return one + other
    return _arithmetic(lambda a, b: a + b)(one, other)


def _divide(one: Any, other: Any) -> Any:
    if type(one) is int and other == 0:
        raise CelError("division by zero")
    if type(one) is float:
        return one / other if other else math.copysign(math.inf, one) if one else math.nan
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


def _modulo(one: Any, other: Any) -> Any:
    if type(one) is not int:
        no_overload()
    if other == 0:
        raise CelError("modulus by zero")
    return int(math.copysign(abs(one) % abs(other), one))


def _size(value: Any) -> int:
    return len(value) if type(value) in (str, list, dict) else no_overload()


def _is_in(item: Any, container: Any) -> bool:
    if type(container) is dict:
        return type(item) is str and item in container
    if type(container) is not list:
        no_overload()
    return any(equal(item, each) for each in container)


def _index(container: Any, key: Any) -> Any:
    if type(container) is dict:
        return select(container, key)
    if type(container) is not list or type(key) is not int:
        no_overload()
    if not 0 <= key < len(container):
        raise CelError(f"index out of bounds: {key}")
    return container[key]


def select(target: Any, key: Any) -> Any:
    """Return a field that must be there."""
    if type(target) is not dict:
        no_overload()
    if key not in target:
        raise CelError(f"no such key: {key}")
    return target[key]


def _string_method(check: Callable[..., Any], *kinds: type) -> Callable[..., Any]:
    """Guard a method of text: target and arguments must have just these types."""
    expected = (str, *kinds)

    def checked(*arguments: Any) -> Any:
        if tuple(map(type, arguments)) != expected:
            no_overload()
        return check(*arguments)

    return checked


def _matches(text: str, pattern: str) -> bool:
    try:
        return bool(compile_pattern(pattern).search(text))
    except re.error as error:
        raise CelError(f"error parsing regexp: {error}") from error


def _to_int(value: Any) -> int:
    try:
        return int(_in_range(int(value))) if type(value) in (int, float, str) else no_overload()
    except (ValueError, OverflowError) as error:
        raise CelError("type conversion error from 'string' to 'int'") from error


def _to_double(value: Any) -> float:
    try:
        return float(value) if type(value) in (int, float, str) else no_overload()
    except ValueError as error:
        raise CelError("type conversion error from 'string' to 'double'") from error


def _to_string(value: Any) -> str:
    return value if type(value) is str else show(value) if type(value) in (int, float, bool) else no_overload()


def _to_duration(value: Any) -> timedelta:
    if type(value) is timedelta:
        return value
    try:
        return parse_duration(value) if type(value) is str else no_overload()
    except DurationError as error:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'") from error


_TYPES: Final = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    dict: "map",
    type(None): "null_type",
    timedelta: "google.protobuf.Duration",
}
_ORDERED: Final = frozenset((str, bool, timedelta))

OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "==": equal,
    "!=": lambda one, other: not equal(one, other),
    "<": _compare(lambda one, other: one < other),
    "<=": _compare(lambda one, other: one <= other),
    ">": _compare(lambda one, other: one > other),
    ">=": _compare(lambda one, other: one >= other),
    "in": _is_in,
    "+": _add,
    "-": _arithmetic(lambda one, other: one - other),
    "*": _arithmetic(lambda one, other: one * other),
    "/": _arithmetic(_divide),
    "%": _arithmetic(_modulo),
    "neg": lambda value: _in_range(-value) if _is_number(value) else no_overload(),
    "[]": _index,
}
FUNCTIONS: Final[dict[tuple[str, int], Callable[..., Any]]] = {
    ("size", 1): _size,
    ("int", 1): _to_int,
    ("double", 1): _to_double,
    ("string", 1): _to_string,
    ("duration", 1): _to_duration,
    ("type", 1): cel_type,
    ("dyn", 1): lambda value: value,
    ("matches", 2): _string_method(_matches, str),
}
METHODS: Final[dict[tuple[str, int], Callable[..., Any]]] = {
    ("size", 1): _size,
    ("startsWith", 2): _string_method(str.startswith, str),
    ("endsWith", 2): _string_method(str.endswith, str),
    ("contains", 2): _string_method(lambda text, part: part in text, str),
    ("matches", 2): _string_method(_matches, str),
    ("lowerAscii", 1): _string_method(str.lower),
    ("upperAscii", 1): _string_method(str.upper),
    ("trim", 1): _string_method(str.strip),
}
TYPE_NAMES: Final = frozenset(_TYPES.values())
