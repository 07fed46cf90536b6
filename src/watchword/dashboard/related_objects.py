"""Which certificate requests and events are about which cluster."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectRef
from watchword.api.resources import MANAGED_CLUSTERS


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
        """Return the objects that are about a cluster."""
        return tuple(self._of_cluster.get(cluster, ()))


def regarded_cluster(event: Object) -> str:
    """Return the cluster that an event is about, empty when it is about something else."""
    regarding = event.get("regarding") or {}
    return str(regarding.get("name") or "") if regarding.get("kind") == MANAGED_CLUSTERS.kind else ""
