"""Measures how long a cluster keeps its rights after it was denied."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_ROLES, MANAGED_CLUSTERS, ROLE_BINDINGS
from watchword.hub.cluster_acceptance import has_cluster_rbac
from watchword.hub.controllers import cluster_from_label
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import CredentialMetrics
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome, Reader, Trigger


class RevocationTimeReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; triggered by its rights. Sends nothing.

    Counted are denials. A cluster that is deleted keeps its rights on purpose, until its agent has finished.
    """

    reader: Reader
    metrics: CredentialMetrics
    clock: Clock
    holders: set[str] = field(default_factory=set)  # clusters that had rights at the last reconcile
    denied: dict[str, datetime] = field(default_factory=dict)  # since when, as this process saw it

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Note a denial, and what it took once nothing is left of the rights."""
        name, found = key.name, self.reader.get(MANAGED_CLUSTERS, key)
        holds = has_cluster_rbac(self.reader, name)
        if holds:
            self.holders.add(name)
        if found is None or Cluster.read(found).accepted:
            self.denied.pop(name, None)
        elif name in self.holders:
            self.denied.setdefault(name, self.clock.now())
        if not holds:
            self.holders.discard(name)
            since = self.denied.pop(name, None)
            if since is not None:
                self.metrics.revoked_after(max(0.0, (self.clock.now() - since).total_seconds()))
        return Done()


def _is_accepted(cluster: Object) -> bool:
    return Cluster.read(cluster).accepted


def revocation_controllers(reader: Reader, metrics: CredentialMetrics, clock: Clock) -> Iterable[ControllerSpec]:
    """Return the measurement as a controller."""
    rights = tuple(Trigger(resource, cluster_from_label) for resource in (CLUSTER_ROLES, ROLE_BINDINGS))
    reconciler = RevocationTimeReconciler(reader, metrics, clock)
    yield ControllerSpec("revocation-time", MANAGED_CLUSTERS, reconciler, rights, workers=1, facts=_is_accepted)
