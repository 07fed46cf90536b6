"""Accepts clusters without an administrator, when the allow-list of their driver contains them."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.hub.cluster_acceptance import choose_missing_metadata, was_accepted_before
from watchword.hub.cluster_drivers import HubDrivers
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader


class ClusterAutoAcceptanceReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; accepts it once when a driver approves it, so that a later denial stands."""

    reader: Reader
    client: Client
    drivers: HubDrivers
    clock: Clock

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Accept the cluster without an administrator, at most once."""
        found = self.reader.get(MANAGED_CLUSTERS, key)
        if found is None:
            return Done()
        cluster = Cluster.read(found)
        if not is_undecided(found):
            return Done()
        if was_accepted_before(self.reader, cluster):  # the agent may have erased the annotation
            return Done()
        if self.drivers.is_auto_accepted(cluster):
            accepted_on = {Annotation.AUTO_ACCEPTED_ON: rfc3339(self.clock.now())}
            metadata = {**choose_missing_metadata(cluster), "annotations": accepted_on}
            patch = {"metadata": metadata, "spec": {"hubAcceptsClient": True}}
            await self.client.patch(MANAGED_CLUSTERS, key, with_preconditions(found, patch))
        return Done()


def is_undecided(found: Object) -> bool:
    """Whether a cluster was neither accepted nor denied, by a person or automatically."""
    cluster = Cluster.read(found)
    decided = {Annotation.AUTO_ACCEPTED_ON, Annotation.DENIED_ON} & cluster.annotations.keys()
    return not (cluster.deleting or cluster.accepted or decided)
