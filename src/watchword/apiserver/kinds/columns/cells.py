"""Formats cells of a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339
from watchword.apiserver.model import Column

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY
UNKNOWN = "<unknown>"


def human_duration(duration: timedelta) -> str:
    """Write a duration with one or two units, coarser the longer it is."""
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    for limit, unit, step, smaller, substep in _STEPS:
        if seconds < limit:
            rest = seconds % step // substep if smaller else 0
            return f"{seconds // step}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{seconds // _YEAR}y"


# upper limit in seconds, unit, its length, smaller unit or none, its length
_STEPS = (
    (2 * _MINUTE, "s", 1, "", 1),
    (10 * _MINUTE, "m", _MINUTE, "s", 1),
    (3 * _HOUR, "m", _MINUTE, "", 1),
    (8 * _HOUR, "h", _HOUR, "m", _MINUTE),
    (2 * _DAY, "h", _HOUR, "", 1),
    (8 * _DAY, "d", _DAY, "h", _HOUR),
    (2 * _YEAR, "d", _DAY, "", 1),
    (8 * _YEAR, "y", _YEAR, "d", _DAY),
)


def age(text: str | None, now: datetime) -> str:
    instant = parse_rfc3339(text) if text else None
    return UNKNOWN if instant is None else human_duration(now - instant)


Cell = Callable[[Object, datetime], Any]


def at(obj: Object, path: str) -> Any:
    """Return the value at a dotted path, None when any part is absent."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def text(path: str, absent: str = "") -> Cell:
    return lambda obj, _: at(obj, path) or absent


def number(path: str) -> Cell:
    return lambda obj, _: at(obj, path) or 0


def size(path: str) -> Cell:
    return lambda obj, _: len(at(obj, path) or ())


def since(path: str, absent: str = "<unknown>") -> Cell:
    return lambda obj, now: age(at(obj, path), now) if at(obj, path) else absent


def wide(name: str, cell: Cell, description: str = "") -> Column:
    """A column shown by `-o wide` alone."""
    return Column(name, cell, description=description, priority=1)


NAME = Column("Name", text("metadata.name"), format="name", description="unique within its namespace")
AGE = Column("Age", since("metadata.creationTimestamp"), description="time since it was created")
CREATED_AT = Column("Created At", text("metadata.creationTimestamp"), type="date", description="when it was created")

PLAIN = (NAME, AGE)
DATED = (NAME, CREATED_AT)
