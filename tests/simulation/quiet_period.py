"""Whether a fleet that is left in peace keeps the peace: it renews what is due, and writes nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from tests.simulation.history import HistoryEntry
from tests.simulation.pillar import Pillar

EVENT = re.compile(r"/events 201$")
CLUSTER = re.compile(r"edge-\d+")
MAX_WRITES_PER_ROTATION = 9
MAX_EVENTS_PER_ROTATION = 2  # the approval of a request, and the new credential

Issued = Mapping[tuple[str, str], datetime]
"""When each credential was issued, by the cluster or the program that renews it and what it is."""


def issued_at(pillars: Iterable[Pillar]) -> Issued:
    """Return when every credential was issued."""
    return {(who, what): when for pillar in pillars for who, what, when in pillar.issued()}


class QuietPeriod(Struct, frozen=True):
    """What was written while nothing happened, and which credentials were renewed meanwhile."""

    writes: Iterable[HistoryEntry]
    before: Issued
    after: Issued
    renewal: re.Pattern[str]  # of writes that a renewal needs
    routine: re.Pattern[str]  # of writes that come whatever happens
    most_renewals: int = 1  # of one credential in that time; more than one where credentials live for hours

    def find_violations(self) -> Iterable[str]:
        """Return every write for which there was no reason."""
        spent: Counter[str] = Counter()
        events = 0
        for entry in self.writes:
            if self.routine.search(entry.what):
                continue
            if EVENT.search(entry.what):
                events += 1
                continue
            cluster = _cluster(entry)
            spent[cluster] += 1
            if not self.renewal.search(entry.what) or spent[cluster] > self._allowance(cluster):
                yield f"a write without need on a quiet day: {entry}"
        if events > MAX_EVENTS_PER_ROTATION * self._renewed():
            yield f"{events} events on a quiet day with {self._renewed()} rotations"

    def _renewed(self, cluster: str | None = None) -> int:
        renewed = [key for key, issued in self.after.items() if self.before.get(key) != issued]
        return self.most_renewals * sum(cluster in (None, key[0]) for key in renewed)

    def _allowance(self, cluster: str) -> int:
        return MAX_WRITES_PER_ROTATION * self._renewed(cluster)


def _cluster(entry: HistoryEntry) -> str:
    found = CLUSTER.search(entry.what) or CLUSTER.search(entry.actor)
    return found.group() if found else entry.actor.partition("-")[0]  # all replicas of a program
