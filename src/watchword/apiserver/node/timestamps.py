"""Reads instants from statuses, which may contain anything."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339


def parse_timestamp(text: str | None, otherwise: datetime) -> datetime:
    """Return the parse_timestamp, or another when there is none to read."""
    return parse_rfc3339(text or "") or otherwise


def transition_time(rows: Iterable[Object], type_: str, otherwise: datetime) -> datetime:
    """Return since when a condition has its status."""
    text = next((row.get("lastTransitionTime") for row in rows if row.get("type") == type_), None)
    return parse_timestamp(text, otherwise)
