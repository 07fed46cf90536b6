"""What happened, in order: enough to understand a failure, and to tell two runs apart."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

KEPT = 4000
"""So many entries are kept for a trace; all of them count for the digest."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One write, one fault or one finding."""

    at: float  # seconds since the beginning
    actor: str
    what: str

    def __str__(self) -> str:
        return f"{_stamp(self.at)}  {self.actor:<14} {self.what}"


@dataclass
class History:
    """Every write that reached a server, every fault, and a digest of it all."""

    now: Callable[[], float]
    entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=KEPT))
    writes: list[Entry] = field(default_factory=list)  # since `mark_quiet`
    _quiet: bool = False
    _digest: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    total: int = 0

    def note(self, actor: str, what: str) -> Entry:
        """Remember one thing that happened."""
        entry = Entry(self.now(), actor, what)
        self.entries.append(entry)
        self._digest.update(f"{entry.at:.6f}|{actor}|{what}\n".encode())
        self.total += 1
        return entry

    def wrote(self, actor: str, method: str, path: str, status: int) -> None:
        """Remember one write and its answer."""
        entry = self.note(actor, f"{method:<6} {path} {status}")
        if self._quiet:
            self.writes.append(entry)

    def mark_quiet(self) -> None:
        """Keep every write from now on: hardly any should come."""
        self._quiet = True
        self.writes.clear()

    @property
    def digest(self) -> str:
        """The same for two runs exactly when everything in them was."""
        return self._digest.hexdigest()

    def trace(self, *words: str, last: int = 40) -> list[str]:
        """Return the last entries that mention one of these words; all of them without words."""
        return [str(entry) for entry in list(_about(self.entries, words))[-last:]]


def _about(entries: Iterable[Entry], words: tuple[str, ...]) -> Iterable[Entry]:
    for entry in entries:
        if not words or any(word in entry.what or word == entry.actor for word in words):
            yield entry


def _stamp(seconds: float) -> str:
    days, rest = divmod(seconds, 86400)
    return f"day {int(days):>3} {timedelta(seconds=round(rest))!s:>8}"
