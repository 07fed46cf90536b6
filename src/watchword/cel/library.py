"""What Kubernetes adds to CEL: quantities and times; every further function in one table."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from watchword.api.quantity import WRONG_FORMAT, parse_quantity
from watchword.api.time import parse_any_rfc3339
from watchword.api.validation import DurationError, parse_duration
from watchword.cel import functions, text_functions
from watchword.cel.functions import CelError, Function, no_overload, typed


class Quantity(Struct, frozen=True):
    """An exact amount."""

    amount: Fraction


def _quantity(text: str) -> Quantity:
    amount = parse_quantity(text)
    if amount is None:
        raise CelError(WRONG_FORMAT)
    return Quantity(amount)


def _sum(one: Any, other: Any, sign: int = 1) -> Quantity:
    if type(one) is not Quantity or type(other) not in (Quantity, int):
        no_overload()
    return Quantity(one.amount + sign * (Fraction(other) if type(other) is int else other.amount))


def _sign(amount: Fraction) -> int:
    return (amount > 0) - (amount < 0)


def _as_integer(value: Quantity) -> int:
    if value.amount.denominator != 1 or abs(value.amount) >= 2**63:
        raise CelError("cannot convert value to integer")
    return int(value.amount)


_OFFSET = re.compile(r"([-+]?)(\d{2}):(\d{2})", re.ASCII)
_LONGEST = 64


def _duration(value: Any) -> timedelta:
    if type(value) is timedelta:
        return value
    if type(value) is not str:
        no_overload()
    try:
        return parse_duration(value)
    except DurationError as error:
        raise CelError(f"time: invalid duration {value[:_LONGEST]!r}") from error


def _timestamp(value: Any) -> datetime:
    if type(value) is datetime:
        return value
    instant = parse_any_rfc3339(value) if type(value) is str else no_overload()
    if instant is None:
        raise CelError("invalid timestamp")
    return instant


def _zone(name: str) -> Any:
    """Return a time zone by its name or offset; raises CelError."""
    offset = _OFFSET.fullmatch(name)
    from zoneinfo import ZoneInfo

    try:
        if offset is None:
            return ZoneInfo(name)
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-ahead if offset[1] == "-" else ahead)
    except (OSError, ValueError, KeyError) as error:
        raise CelError(f"unknown time zone {name[:_LONGEST]}") from error


def _part(read: Callable[[datetime], int], unit: timedelta | None = None) -> Function:
    """Return the accessor of a part of a timestamp; one with a unit is also a duration's."""

    def accessor(value: Any, zone: Any = "") -> int:
        if unit is not None and type(value) is timedelta and not zone:
            return int(value / unit)
        if type(value) not in (datetime, str) or type(zone) is not str:
            no_overload()
        # A field of format date-time is a text here and a timestamp in Kubernetes.
        try:
            return read(_timestamp(value).astimezone(_zone(zone) if zone else UTC))
        except OverflowError as error:
            raise CelError("timestamp overflow") from error

    return accessor


_ACCESSORS: Final[dict[str, Function]] = {
    "getFullYear": _part(lambda at: at.year),
    "getMonth": _part(lambda at: at.month - 1),
    "getDate": _part(lambda at: at.day),
    "getDayOfMonth": _part(lambda at: at.day - 1),
    "getDayOfWeek": _part(lambda at: at.isoweekday() % 7),
    "getDayOfYear": _part(lambda at: at.timetuple().tm_yday - 1),
    "getHours": _part(lambda at: at.hour, timedelta(hours=1)),
    "getMinutes": _part(lambda at: at.minute, timedelta(minutes=1)),
    "getSeconds": _part(lambda at: at.second, timedelta(seconds=1)),
    "getMilliseconds": _part(lambda at: at.microsecond // 1000, timedelta(milliseconds=1)),
}


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    **functions.FUNCTIONS,
    **text_functions.FUNCTIONS,
    ("quantity", 1): typed(_quantity, str),
    ("isQuantity", 1): typed(lambda text: parse_quantity(text) is not None, str),
    ("sign", 1): typed(lambda value: _sign(value.amount), Quantity),  # documented as a method, served as a function
    ("duration", 1): _duration,
    ("timestamp", 1): _timestamp,
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    **functions.METHODS,
    **text_functions.METHODS,
    ("isInteger", 1): typed(lambda value: value.amount.denominator == 1, Quantity),
    ("asInteger", 1): typed(_as_integer, Quantity),
    ("asApproximateFloat", 1): typed(lambda value: float(value.amount), Quantity),
    ("add", 2): _sum,
    ("sub", 2): lambda one, other: _sum(one, other, -1),
    ("isGreaterThan", 2): typed(lambda one, other: one.amount > other.amount, Quantity, Quantity),
    ("isLessThan", 2): typed(lambda one, other: one.amount < other.amount, Quantity, Quantity),
    ("compareTo", 2): typed(lambda one, other: _sign(one.amount - other.amount), Quantity, Quantity),
    **{(name, arity): function for name, function in _ACCESSORS.items() for arity in (1, 2)},
}
