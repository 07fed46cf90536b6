"""Durations and timestamps in rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from watchword.api.time import parse_any_rfc3339
from watchword.cel.functions import CelError, Function, no_overload

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
FUNCTIONS: Final[dict[tuple[str, int], Function]] = {("duration", 1): _duration, ("timestamp", 1): _timestamp}
METHODS: Final[dict[tuple[str, int], Function]] = {
    (name, arity): function for name, function in _ACCESSORS.items() for arity in (1, 2)
}
