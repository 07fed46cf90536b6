"""How often reported values may be written to the hub: at once when they are rare, seldom when they never rest."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from watchword.api.meta import ObjectKey

MIN_INTERVAL = 1.0


@dataclass
class FeedbackThrottle:
    """Each report that follows another soon waits twice as long as the one before, up to the interval."""

    interval: timedelta
    _reports: dict[ObjectKey, tuple[float, float]] = field(default_factory=dict, init=False)

    def delay(self, key: ObjectKey) -> timedelta:
        """Return how long the next report has to delay; nothing when it may go now."""
        written_at, gap = self._reports.get(key, (float("-inf"), MIN_INTERVAL))
        return timedelta(seconds=max(0.0, written_at + gap - asyncio.get_running_loop().time()))

    def record_write(self, key: ObjectKey) -> None:
        """Take note of a report."""
        now = asyncio.get_running_loop().time()
        written_at, gap = self._reports.get(key, (float("-inf"), MIN_INTERVAL))
        slowest = max(self.interval.total_seconds(), MIN_INTERVAL)
        rested = now - written_at > 2 * slowest
        self._reports[key] = now, MIN_INTERVAL if rested else min(slowest, 2 * gap)

    def forget(self, key: ObjectKey) -> None:
        """Remember nothing about a work."""
        self._reports.pop(key, None)
