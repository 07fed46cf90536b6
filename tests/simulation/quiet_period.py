"""Whether a fleet that is left in peace keeps the peace: it renews what is due, and writes nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.held_credentials import addon_credential, cluster_credential
from tests.simulation.history import HistoryEntry

LEASE = re.compile(r"/leases/(managed-cluster-lease|watchword-hub-lock) 200$")
ROTATION = re.compile(
    r"/secrets/(hub-kubeconfig-secret|reporter-hub-kubeconfig) 200$"
    r"|/certificatesigningrequests(/[^/]+/approval)? 20[01]$"
    r"|/serviceaccounts/[^/]+/token 201$"
    r"|/managedclusters/[^/]+/status 200$"
    r"|/managedclusteraddons/[^/]+/status 200$"
)
EVENT = re.compile(r"/events 201$")
CLUSTER = re.compile(r"edge-\d+")
MAX_WRITES_PER_ROTATION = 9
MAX_EVENTS_PER_ROTATION = 2  # the approval of a request, and the new credential

Issued = Mapping[str, tuple[datetime | None, datetime | None]]


def issued_at(members: Iterable[SimulatedCluster]) -> Issued:
    """Return when the credentials of every cluster were issued."""
    found = {}
    for member in members:
        own, addon = cluster_credential(member), addon_credential(member)
        found[member.name] = (own.issued_at if own else None, addon.issued_at if addon else None)
    return found


class QuietPeriod(Struct, frozen=True):
    """What was written while nothing happened, and which credentials were renewed meanwhile."""

    writes: Iterable[HistoryEntry]
    before: Issued
    after: Issued
    most_renewals: int = 1  # of one credential in that time; more than one where credentials live for hours

    def find_violations(self) -> Iterable[str]:
        """Return every write for which there was no reason."""
        spent: Counter[str] = Counter()
        events = 0
        for entry in self.writes:
            if LEASE.search(entry.what):
                continue
            if EVENT.search(entry.what):
                events += 1
                continue
            cluster = _cluster(entry)
            spent[cluster] += 1
            if not ROTATION.search(entry.what) or spent[cluster] > self._allowance(cluster):
                yield f"a write without need on a quiet day: {entry}"
        if events > MAX_EVENTS_PER_ROTATION * self._rotations():
            yield f"{events} events on a quiet day with {self._rotations()} rotations"

    def _renewed(self, cluster: str) -> int:
        pairs = zip(self.before.get(cluster, ()), self.after.get(cluster, ()), strict=True)
        return self.most_renewals * sum(before != after for before, after in pairs)

    def _allowance(self, cluster: str) -> int:
        return MAX_WRITES_PER_ROTATION * self._renewed(cluster)

    def _rotations(self) -> int:
        return sum(self._renewed(cluster) for cluster in self.after)


def _cluster(entry: HistoryEntry) -> str:
    found = CLUSTER.search(entry.what)
    return found.group() if found else entry.actor
