"""Durations as kubectl prints them in tables: `42s`, `5m30s`, `3h`, `2d4h`, `3y120d`."""

from __future__ import annotations

from datetime import datetime, timedelta

from watchword.api.time import parse_rfc3339

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
    """Write how long ago an instant was."""
    instant = parse_rfc3339(text) if text else None
    return UNKNOWN if instant is None else human_duration(now - instant)
