"""What time it is, as an argument."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the wall-clock time. Waiting is the event loop's business, not the clock's."""

    def now(self) -> datetime:
        """Return the present instant, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the present instant, in UTC."""
        return datetime.now(UTC)
