"""Deletes clusters that left their hub and were not deleted; never one that rejoined."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from watchword.api.cluster import Cluster
from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import parse_rfc3339
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.runtime.clock import Clock

DENIED = "HubClusterAdminDenied"
PATIENCE = timedelta(minutes=10)


def is_left_over(found: Object, *, patience: timedelta, now: datetime) -> bool:
    """Whether a cluster was denied long enough ago; one that still waits to be accepted for the first time was not."""
    cluster = Cluster.read(found)
    if cluster.accepted or cluster.deleting:
        return False
    row = next((row for row in conditions_of(found) if row.get("type") == ConditionType.HUB_ACCEPTED), None)
    if row is None or row.get("status") != "False" or row.get("reason") != DENIED:
        return False
    since = parse_rfc3339(str(row.get("lastTransitionTime") or ""))
    return since is not None and now - since >= patience


@dataclass(frozen=True)
class ClusterCleanup:
    """One round of cleaning."""

    client: Client
    clock: Clock
    patience: timedelta = PATIENCE
    dry_run: bool = False

    async def run(self) -> list[str]:
        """Delete what is left over and return the names; a cluster that changed meanwhile is left alone."""
        now = self.clock.now()
        listed = (await self.client.list(MANAGED_CLUSTERS)).items
        left = [found for found in listed if is_left_over(found, patience=self.patience, now=now)]
        return [found["metadata"]["name"] for found in left if await self._delete(found)]

    async def _delete(self, found: Object) -> bool:
        if self.dry_run:
            return True
        try:
            await self.client.delete(
                MANAGED_CLUSTERS,
                ObjectKey.of(found),
                uid=uid_of(found),
                # Acceptance changes the revision, so that a cluster that rejoined since the list is not deleted.
                resource_version=found["metadata"]["resourceVersion"],
            )
        except (Conflict, NotFound):
            return False
        return True
