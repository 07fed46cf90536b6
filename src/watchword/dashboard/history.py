"""What changed about each cluster's credentials since the dashboard started."""

from collections import deque
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectRef
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.dashboard.rows import Row
from watchword.health.states import InventoryHealth

ENTRIES_KEPT = 100  # for each cluster


class HistoryEntry(Struct, frozen=True):
    """One change; `at` is an instant as text that sorts."""

    at: str
    about: str
    what: str
    row: str = ""  # the id of the row that changed: only those who see the row see its history


class HistoryLog(Struct):
    """Keeps the latest changes of each cluster in memory."""

    _entries: dict[str, deque[HistoryEntry]] = field(default_factory=dict)

    def record(self, before: Sequence[Row], after: Sequence[Row], now: datetime) -> None:
        """Compare the rows of one object with those that it had before, and note what changed."""
        known = {row.id: row for row in before}
        for row in after:
            old = known.get(row.id)
            if old is not None and old.entry != row.entry:
                self._note(row.id, old.fields(), row.fields(), now)

    def entries(self, cluster: str, visible: Container[str]) -> Sequence[HistoryEntry]:
        return [entry for entry in self._entries.get(cluster, ()) if entry.row in visible]

    def forget(self, cluster: str) -> None:
        self._entries.pop(cluster, None)

    def _note(self, identity: str, old: dict[str, Any], new: dict[str, Any], now: datetime) -> None:
        cluster = new["name"] if new["table"] == "cluster" else new.get("cluster") or ""
        kept = self._entries.setdefault(cluster, deque(maxlen=ENTRIES_KEPT))
        about = new.get("holder") or (f"add-on {new['name']}" if new["table"] == "add-on" else "cluster")
        kept.extend(HistoryEntry(rfc3339(now), about, what, identity) for what in describe_change(old, new))


def describe_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    told = []
    if new.get("expires") is not None and old.get("expires") != new["expires"]:
        told.append(f"{new['kind']} renewed, valid until {rfc3339(datetime.fromtimestamp(new['expires'], UTC))}")
    if old["health"] != new["health"]:
        before, after = InventoryHealth(old["health"]).label, InventoryHealth(new["health"]).label
        told.append(f"{before} became {after}{': ' + new['note'] if new['note'] else ''}")
    return told


class RelatedObjects(Struct):
    """Objects by the cluster that they are about; an object is about one cluster at most."""

    _cluster_of: dict[ObjectRef, str] = field(default_factory=dict)
    _of_cluster: dict[str, dict[ObjectRef, None]] = field(default_factory=dict)

    def put(self, ref: ObjectRef, cluster: str) -> Sequence[str]:
        """Note what an object is about, an empty name for nothing; return the clusters that this concerns."""
        before = self._cluster_of.pop(ref, "")
        if before:
            self._of_cluster[before].pop(ref)
            if not self._of_cluster[before]:
                del self._of_cluster[before]
        if cluster:
            self._cluster_of[ref] = cluster
            self._of_cluster.setdefault(cluster, {})[ref] = None
        return [name for name in dict.fromkeys((before, cluster)) if name]

    def about(self, cluster: str) -> Sequence[ObjectRef]:
        return tuple(self._of_cluster.get(cluster, ()))


def regarded_cluster(event: Object) -> str:
    """Return the cluster that an event is about, empty when it is about something else."""
    regarding = event.get("regarding") or {}
    return str(regarding.get("name") or "") if regarding.get("kind") == MANAGED_CLUSTERS.kind else ""
