"""Gives each pod of a fleet in one process a log of its own, beside the log of the whole."""

from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.limits import MAX_LOG_BYTES
from watchword.api.time import rfc3339
from watchword.health.recent_events import FleetEvent

SECOND = slice(19)  # of an instant in RFC 3339: some events have microseconds, conditions have none
_pod_log: ContextVar[Path | None] = ContextVar("pod_log", default=None)


class EventLog(Struct):
    """Remembers what was read last.

    A condition whose message changes keeps its lastTransitionTime: a renewal would be shown at the time of the first
    issuance. An event that takes the place of another one of the same object and instant gets the time of the reading.
    """

    _last: frozenset[FleetEvent] = frozenset()
    _corrected: dict[FleetEvent, FleetEvent] = field(default_factory=dict)

    def read(self, rows: Sequence[FleetEvent], now: datetime) -> Sequence[FleetEvent]:
        present = frozenset(rows)
        replaced = {(row.about, row.at) for row in self._last - present}
        for row in present - self._last:
            if (row.about, row.at) in replaced:
                self._corrected[row] = replace(row, at=rfc3339(now))
        self._corrected = {row: own for row, own in self._corrected.items() if row in present}
        self._last = present
        return sorted((self._corrected.get(row, row) for row in rows), key=lambda row: row.at[SECOND])


def log_to(path: Path) -> None:
    """Send what this task and those that it starts log to a file, too."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _pod_log.set(path)


class PodLogStream(Struct, frozen=True):
    """A stream that writes each line to the log of the whole, and to that of the pod whose task logs it.

    A log that cannot be written, on a full disk, stops nothing. One older file of each log is kept.
    """

    whole: Path

    def write(self, text: str) -> int:
        for path in filter(None, (self.whole, _pod_log.get())):
            with suppress(OSError):
                _append(path, text)
        return len(text)

    def flush(self) -> None:
        """Return: every line is written at once."""

    def isatty(self) -> bool:
        return False


def _append(path: Path, text: str) -> None:
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    with path.open("a", encoding="utf-8") as log:
        log.write(text)
