"""What Kubernetes adds to CEL: quantities and times; every further function in one table."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from watchword.api.quantity import parse_quantity
from watchword.api.time import parse_any_rfc3339
from watchword.cel import text_functions
from watchword.cel.functions import CelError, Function, no_overload


class Quantity(Struct, frozen=True):
    """An exact amount."""

    amount: Fraction


def _quantity(text: Any) -> Quantity:
    amount = parse_quantity(text) if type(text) is str else no_overload()
    if amount is None:
        raise CelError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return Quantity(amount)


def _is_quantity(text: Any) -> bool:
    return parse_quantity(text) is not None if type(text) is str else no_overload()


def _amount(value: Any) -> Fraction:
    return value.amount if type(value) is Quantity else no_overload()


def _amount_or_int(value: Any) -> Fraction:
    return Fraction(value) if type(value) is int else _amount(value)


def _sign(amount: Fraction) -> int:
    return (amount > 0) - (amount < 0)


def _as_integer(value: Any) -> int:
    amount = _amount(value)
    if amount.denominator != 1 or abs(amount) >= 2**63:
        raise CelError("cannot convert value to integer")
    return int(amount)


_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+)", re.ASCII)  # as Go writes it
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_OFFSET = re.compile(r"([-+]?)(\d{2}):(\d{2})", re.ASCII)
_LONGEST = 64


def _duration(value: Any) -> timedelta:
    if type(value) is timedelta:
        return value
    if type(value) is not str:
        no_overload()
    if len(value) > _LONGEST or not _DURATION.fullmatch(value):
        raise CelError(f"time: invalid duration {value[:_LONGEST]!r}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
    try:
        return timedelta(seconds=-seconds if value.startswith("-") else seconds)
    except OverflowError as error:
        raise CelError("duration out of range") from error


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
    if offset is not None:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-ahead if offset[1] == "-" else ahead)
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise CelError(f"unknown time zone {name[:_LONGEST]}") from error


def _of_timestamp(read: Callable[[datetime], int]) -> Function:
    def accessor(value: Any, zone: Any = "") -> int:
        if type(value) not in (datetime, str) or type(zone) is not str:
            no_overload()
        # A field of format date-time is a text here and a timestamp in Kubernetes.
        return read(_timestamp(value).astimezone(_zone(zone) if zone else UTC))

    return accessor


def _of_either(read: Callable[[datetime], int], unit: timedelta) -> Function:
    of_timestamp = _of_timestamp(read)

    def accessor(value: Any, *zone: Any) -> int:
        if type(value) is timedelta and not zone:
            return int(value / unit)
        return int(of_timestamp(value, *zone))

    return accessor


_ACCESSORS: Final[dict[str, Function]] = {
    "getFullYear": _of_timestamp(lambda at: at.year),
    "getMonth": _of_timestamp(lambda at: at.month - 1),
    "getDate": _of_timestamp(lambda at: at.day),
    "getDayOfMonth": _of_timestamp(lambda at: at.day - 1),
    "getDayOfWeek": _of_timestamp(lambda at: at.isoweekday() % 7),
    "getDayOfYear": _of_timestamp(lambda at: at.timetuple().tm_yday - 1),
    "getHours": _of_either(lambda at: at.hour, timedelta(hours=1)),
    "getMinutes": _of_either(lambda at: at.minute, timedelta(minutes=1)),
    "getSeconds": _of_either(lambda at: at.second, timedelta(seconds=1)),
    "getMilliseconds": _of_either(lambda at: at.microsecond // 1000, timedelta(milliseconds=1)),
}


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    **text_functions.FUNCTIONS,
    ("quantity", 1): _quantity,
    ("isQuantity", 1): _is_quantity,
    ("sign", 1): lambda value: _sign(_amount(value)),  # documented as a method, served as a function
    ("duration", 1): _duration,
    ("timestamp", 1): _timestamp,
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    **text_functions.METHODS,
    ("isInteger", 1): lambda value: _amount(value).denominator == 1,
    ("asInteger", 1): _as_integer,
    ("asApproximateFloat", 1): lambda value: float(_amount(value)),
    ("add", 2): lambda one, other: Quantity(_amount(one) + _amount_or_int(other)),
    ("sub", 2): lambda one, other: Quantity(_amount(one) - _amount_or_int(other)),
    ("isGreaterThan", 2): lambda one, other: _amount(one) > _amount(other),
    ("isLessThan", 2): lambda one, other: _amount(one) < _amount(other),
    ("compareTo", 2): lambda one, other: _sign(_amount(one) - _amount(other)),
    **{(name, arity): function for name, function in _ACCESSORS.items() for arity in (1, 2)},
}
