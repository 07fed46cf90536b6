"""Gives each event of a running fleet the time at which it happened."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.admin.recent_events import FleetEvent
from watchword.api.time import rfc3339

SECOND = slice(19)  # of an instant in RFC 3339: some events have microseconds, conditions have none


class EventLog(Struct):
    """Remembers what was read last.

    A condition whose message changes keeps its lastTransitionTime: a renewal would be shown at the time of the first
    issuance. An event that takes the place of another one of the same object and instant gets the time of the reading.
    """

    _last: frozenset[FleetEvent] = frozenset()
    _corrected: dict[FleetEvent, FleetEvent] = field(default_factory=dict)

    def read(self, rows: Sequence[FleetEvent], now: datetime) -> Sequence[FleetEvent]:
        """Return the events with their own times, the latest last."""
        present = frozenset(rows)
        replaced = {(row.about, row.at) for row in self._last - present}
        for row in present - self._last:
            if (row.about, row.at) in replaced:
                self._corrected[row] = replace(row, at=rfc3339(now))
        self._corrected = {row: own for row, own in self._corrected.items() if row in present}
        self._last = present
        return sorted((self._corrected.get(row, row) for row in rows), key=lambda row: row.at[SECOND])
