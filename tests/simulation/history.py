"""What happened, in order: enough to understand a failure, and to tell two runs apart."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from msgspec import Struct

ROUTINE_WRITE = re.compile(r"/leases/[^/]+ 200$|/events 201$")
"""What happens all the time and explains nothing."""

MOST_IN_AN_HOUR = 120
"""In a small fleet no program writes the same thing more often: it waits between attempts."""

MOST_REQUESTS_IN_AN_HOUR = 2400
"""Of one program, reads and failed ones as well: in an outage each of two dozen watches asks about once a minute."""

MAX_ENTRIES = 4000
"""So many entries are kept for a trace; all of them count for the digest."""

ANY = re.compile("")

PASSES_OF_A_RESPONSE = 3
"""Passes of the loop from a write to its response, which a task awaits."""


class HistoryEntry(Struct, frozen=True):
    """One write, one fault or one violation."""

    at: float  # seconds since the beginning
    actor: str
    what: str

    def __str__(self) -> str:
        return f"{stamp(self.at)}  {self.actor:<14} {self.what}"


@dataclass
class History:
    """Every write that reached a server, every fault, and a digest of it all."""

    now: Callable[[], float]
    most_in_an_hour: int = MOST_IN_AN_HOUR
    entries: deque[HistoryEntry] = field(default_factory=lambda: deque(maxlen=MAX_ENTRIES))
    writes: list[HistoryEntry] = field(default_factory=list)  # since `mark_quiet`
    relays: set[str] = field(default_factory=set)  # who passes writes on that are noted of those who wrote them
    _expected: dict[asyncio.Future[None], tuple[frozenset[str], re.Pattern[str]]] = field(default_factory=dict)
    _quiet: bool = False
    _digest: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    total: int = 0
    too_frequent: dict[str, None] = field(default_factory=dict)  # who wrote what without pause
    _hour: int = 0
    _in_this_hour: Counter[tuple[str, str]] = field(default_factory=Counter)
    _requests: Counter[str] = field(default_factory=Counter)

    def note(self, actor: str, what: str) -> HistoryEntry:
        """Remember one thing that happened."""
        entry = HistoryEntry(self.now(), actor, what)
        self.entries.append(entry)
        self._digest.update(f"{entry.at:.6f}|{actor}|{what}\n".encode())
        self.total += 1
        return entry

    def expect(self, actors: Iterable[str], pattern: re.Pattern[str] = ANY) -> asyncio.Future[None]:
        """Return when one of these programs has written what matches, and its response is not back yet."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._expected[future] = frozenset(actors), pattern
        return future

    async def tell(self, actor: str, request: str) -> None:
        """Let those act who expect a write, before its response gets back."""
        for future, (actors, pattern) in list(self._expected.items()):
            if future.done():
                del self._expected[future]
            elif actor in actors and pattern.search(request):
                future.set_result(None)
                for _ in range(PASSES_OF_A_RESPONSE):
                    await asyncio.sleep(0)

    def wrote(self, actor: str, method: str, path: str, status: int) -> bool:
        """Remember one write and its answer; True when the same was written far too often of late."""
        entry = self.note(actor, f"{method:<6} {path} {status}")
        if self._quiet and actor not in self.relays:
            self.writes.append(entry)
        return self._is_too_frequent(entry)

    def requested(self, actor: str) -> None:
        """Count a request, whether or not it arrives."""
        self._begin_hour(self.now())
        self._requests[actor] += 1
        most = MOST_REQUESTS_IN_AN_HOUR * self.most_in_an_hour // MOST_IN_AN_HOUR
        if self._requests[actor] == most + 1:
            self.too_frequent[f"{actor} sends more than {most} requests in an hour"] = None

    def _begin_hour(self, at: float) -> None:
        if self._hour != int(at // 3600):
            self._hour = int(at // 3600)
            self._in_this_hour.clear()
            self._requests.clear()

    def _is_too_frequent(self, entry: HistoryEntry) -> bool:
        self._begin_hour(entry.at)
        self._in_this_hour[entry.actor, entry.what] += 1
        often = self._in_this_hour[entry.actor, entry.what] > self.most_in_an_hour
        too_frequent = often and not ROUTINE_WRITE.search(entry.what)
        if too_frequent:
            self.too_frequent[f"{entry.actor} does not pause: {entry.what}"] = None
        return too_frequent

    def mark_quiet(self) -> None:
        """Keep every write from now on: hardly any should come."""
        self._quiet = True
        self.writes.clear()

    @property
    def digest(self) -> str:
        """The same for two runs exactly when everything in them was."""
        return self._digest.hexdigest()

    def trace(self, *about: str, last: int = 20) -> list[str]:
        """Return the last things that concern these names, or everybody; what was repeated is told once."""
        names = re.compile("|".join([rf"{re.escape(name)}(?!\d)" for name in about] + ["everybody"]))
        told: dict[tuple[str, str], list[HistoryEntry]] = {}
        for entry in self.entries:
            if (names.search(entry.what) or entry.actor in about) and not ROUTINE_WRITE.search(entry.what):
                told.setdefault((entry.actor, entry.what), []).append(entry)
        latest = sorted(told.values(), key=lambda same: same[-1].at)[-last:]
        return [f"{same[-1]}{f'  ({len(same)} times)' if len(same) > 1 else ''}" for same in latest]


def stamp(seconds: float) -> str:
    """Return an instant of a life as people say it."""
    days, rest = divmod(seconds, 86400)
    return f"day {int(days):>3} {timedelta(seconds=round(rest))!s:>8}"
