"""The wall clock, passed as an argument."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the wall-clock time. Waiting is done by the event loop, not by the clock."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        return datetime.now(UTC)
