"""Operators, functions and optional values of expressions; arguments of a wrong type have no overload."""

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, TypeAlias

from msgspec import Struct

from watchword.api.json import same_json, show
from watchword.api.time import parse_any_rfc3339, rfc3339
from watchword.cel.re2_patterns import compile_pattern

Function: TypeAlias = Callable[..., Any]


class CelError(Exception):
    """A rule could not be evaluated on this value."""


class NoSuchOverload(CelError):
    """A function does not support arguments of these types."""


def no_overload() -> NoReturn:
    raise NoSuchOverload("no such overload")


def equal(one: Any, other: Any) -> bool:
    """Compare; numbers are equal across their types."""
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    return same_json(one, other)


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(one: Any, other: Any) -> bool:
        if type(one) is not type(other):
            one, other = _as_instant(one, other), _as_instant(other, one)
        if (_is_number(one) and _is_number(other)) or (type(one) is type(other) and type(one) in _ORDERED):
            return test(one, other)
        return no_overload()

    return compared


def _as_instant(value: Any, beside: Any) -> Any:
    """Return a text as an instant where it meets one: a field of format date-time is a text here."""
    return parse_any_rfc3339(value) if type(value) is str and type(beside) is datetime else value


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(one: Any, other: Any) -> Any:
        if type(one) in _TIMES and type(other) in _TIMES:
            return _time_arithmetic(compute, one, other)
        if type(one) is not type(other) or not _is_number(one):
            no_overload()
        return _in_range(compute(one, other))

    return computed


def _time_arithmetic(compute: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    try:
        value = compute(one, other)
    except TypeError:
        no_overload()
    except OverflowError as error:
        raise CelError("integer overflow") from error
    return value if type(value) in _TIMES else no_overload()


def _in_range(value: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise CelError("integer overflow")
    return value


MAX_TEXT = 10_000_000
"""A longer text is never the result of a rule, but it could fill the memory."""


def bounded(length: int, limit: int = MAX_TEXT) -> None:
    if length > limit:
        raise CelError("operation cancelled: actual cost limit exceeded")


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
        return type(item) in _KEYS and item in container
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
    if type(target) is not dict or type(key) not in _KEYS:
        no_overload()
    if key not in target:
        raise CelError(f"no such key: {key}")
    return target[key]


class OptionalValue(Struct, frozen=True):
    """A value, or none."""

    held: tuple[Any, ...] = ()  # one item, or none

    def value(self) -> Any:
        """Return the value; raises CelError when there is none."""
        if not self.held:
            raise CelError("optional.none() dereference")
        return self.held[0]


NONE: Final = OptionalValue()


def select_optional(target: Any, key: Any) -> OptionalValue:
    """Return a field or item that may be absent; what comes after an absent one is absent, too."""
    if type(target) is OptionalValue:
        return select_optional(target.held[0], key) if target.held else NONE
    if type(target) is list:
        return OptionalValue((target[key],)) if type(key) is int and 0 <= key < len(target) else NONE
    try:
        return OptionalValue((select(target, key),))
    except CelError:
        if type(target) is not dict:
            raise
        return NONE


def _of_non_zero(value: Any) -> OptionalValue:
    return NONE if value is None or value in (0, "", [], {}) else OptionalValue((value,))


def _expect(value: Any) -> OptionalValue:
    return value if type(value) is OptionalValue else no_overload()


def typed(check: Function, *kinds: type) -> Function:
    """Guard a function: its arguments must have just these types."""

    def checked(*arguments: Any) -> Any:
        if tuple(map(type, arguments)) != kinds:
            no_overload()
        return check(*arguments)

    return checked


def _matches(text: str, pattern: str) -> bool:
    try:
        return bool(compile_pattern(pattern).search(text))
    except re.error as error:
        raise CelError(f"error parsing regexp: {error}") from error


def _number(kind: type[int | float], name: str) -> Function:
    def convert(value: Any) -> Any:
        try:
            if type(value) is str and not _NUMERAL.fullmatch(value):
                raise ValueError(value)
            return _in_range(kind(value)) if type(value) in (int, float, str) else no_overload()
        except (ValueError, OverflowError) as error:
            raise CelError(f"type conversion error from 'string' to '{name}'") from error

    return convert


_NUMERAL = re.compile(r"[-+.0-9A-Za-z]+")  # Python would read blanks, underscores and digits of other scripts, too
_to_int = _number(int, "int")


def _to_bool(value: Any) -> bool:
    if type(value) is bool:
        return bool(value)
    if type(value) is not str:
        no_overload()
    if value not in _BOOLEANS:
        raise CelError("type conversion error from 'string' to 'bool'")
    return _BOOLEANS[value]


def _to_uint(value: Any) -> Any:
    number = _to_int(value)
    if number < 0:
        raise CelError("unsigned integer overflow")
    return number


def _to_string(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is datetime:
        return rfc3339(value)
    if kind is timedelta:
        return f"{value.total_seconds():g}s"
    if kind in (list, dict, type(None)):
        no_overload()
    return show(value) if kind in _TYPES else str(value)


_TYPES: Final = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    list: "list",
    dict: "map",
    type(None): "null_type",
    datetime: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
}
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_TIMES: Final = frozenset((datetime, timedelta))
_ORDERED: Final = frozenset((str, bool)) | _TIMES
_KEYS: Final = frozenset((str, int, bool))

OPERATORS: Final[dict[str, Function]] = {
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
    "[?]": select_optional,
}
FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("size", 1): _size,
    ("int", 1): _to_int,
    ("double", 1): _number(float, "double"),
    ("string", 1): _to_string,
    ("type", 1): lambda value: _TYPES.get(type(value), "dyn"),
    ("dyn", 1): lambda value: value,
    ("bool", 1): _to_bool,
    ("uint", 1): _to_uint,
    ("matches", 2): typed(_matches, str, str),
    ("optional.of", 1): lambda value: OptionalValue((value,)),
    ("optional.ofNonZeroValue", 1): _of_non_zero,
    ("optional.none", 0): lambda: NONE,
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    ("size", 1): _size,
    ("startsWith", 2): typed(str.startswith, str, str),
    ("endsWith", 2): typed(str.endswith, str, str),
    ("contains", 2): typed(lambda text, part: part in text, str, str),
    ("matches", 2): typed(_matches, str, str),
    ("lowerAscii", 1): typed(str.lower, str),
    ("upperAscii", 1): typed(str.upper, str),
    ("trim", 1): typed(str.strip, str),
    ("hasValue", 1): lambda found: bool(_expect(found).held),
    ("value", 1): lambda found: _expect(found).value(),
    ("orValue", 2): lambda found, other: found.held[0] if _expect(found).held else other,
    ("or", 2): lambda found, other: found if _expect(found).held else _expect(other),
}
TYPE_NAMES: Final = frozenset(_TYPES.values())
