"""Keeps workloads away from clusters that are unavailable or unreachable."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader

UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"


class ClusterTaintReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster."""

    reader: Reader
    client: Client
    clock: Clock

    def concerns(self, cluster: Object) -> bool:
        """Whether a cluster has other taints than it should have."""
        return choose_taints(cluster, now=self.clock.now()) is not None

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Put on or take off the two taints that follow from availability."""
        found = self.reader.get(MANAGED_CLUSTERS, key)
        if found is None or Cluster.read(found).deleting:
            return Done()
        taints = choose_taints(found, now=self.clock.now())
        if taints is not None:
            await self.client.patch(MANAGED_CLUSTERS, key, with_preconditions(found, {"spec": {"taints": taints}}))
        return Done()


def choose_taints(cluster: Object, *, now: datetime) -> list[Object] | None:
    """Return the list of taints the cluster should have, or None when it has it.

    A cluster that never joined is left alone: there is nothing on it to keep away from yet.
    """
    present: list[Object] = (cluster.get("spec") or {}).get("taints") or []
    available = find_condition(cluster, ConditionType.AVAILABLE)
    wanted = None if available is None else {"True": None, "False": UNAVAILABLE}.get(available.status, UNREACHABLE)
    kept = [taint for taint in present if taint.get("key") not in {UNAVAILABLE, UNREACHABLE} - {wanted}]
    if wanted and all(taint.get("key") != wanted for taint in kept):
        kept.append({"key": wanted, "effect": "NoSelect", "timeAdded": rfc3339(now)})
    return kept if kept != present else None
