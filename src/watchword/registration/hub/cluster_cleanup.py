"""Announces and deletes clusters that left by their own `unjoin`; never one that an administrator denied."""

from datetime import datetime, timedelta

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, conditions_of, find_condition, is_true
from watchword.api.limits import LEFT_CLUSTER_RETENTION
from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.names import DENIED_REASON, Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import parse_rfc3339
from watchword.api.validation import format_duration, parse_duration
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader
from watchword.runtime.status import StatusChange, StatusWriter

RETENTION = parse_duration(LEFT_CLUSTER_RETENTION)


def has_left(found: Object) -> bool:
    """Whether the cluster's own side took it out, the hub has withdrawn its rights, and no administrator denied it."""
    cluster = Cluster.read(found)
    if cluster.accepted or cluster.deleting or Annotation.LEFT_ON not in cluster.annotations:
        return False
    granted = find_condition(found, ConditionType.HUB_ACCEPTED)
    withdrawn = granted is not None and granted.status == "False" and granted.reason == DENIED_REASON
    return withdrawn and Annotation.DENIED_ON not in cluster.annotations


def may_have_left(found: Object) -> bool:
    announced = find_condition(found, ConditionType.CLEANUP_SCHEDULED) is not None
    return announced or Annotation.LEFT_ON in annotations_of(found)


def is_due_for_deletion(found: Object, *, retention: timedelta, now: datetime) -> bool:
    rows = (row for row in conditions_of(found) if row.get("type") == ConditionType.CLEANUP_SCHEDULED)
    announced = next((row for row in rows if row.get("status") == "True"), None)
    if announced is None or not has_left(found):
        return False
    since = parse_rfc3339(str(announced.get("lastTransitionTime") or ""))
    return since is not None and now - since >= retention


class ClusterCleanupReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; says on a cluster that left when it is deleted, and takes that back."""

    reader: Reader
    client: Client
    status: StatusWriter
    events: EventRecorder
    retention: timedelta = RETENTION

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(MANAGED_CLUSTERS, key)
        if found is None:
            return Done()
        if has_left(found):
            await self._announce(found)
            return Done()
        await self.status.write(MANAGED_CLUSTERS, found, StatusChange(without=(ConditionType.CLEANUP_SCHEDULED,)))
        if Cluster.read(found).accepted and Annotation.LEFT_ON in annotations_of(found):
            # A record of leaving holds for one acceptance: the next denial is an administrator's.
            patch = with_preconditions(found, {"metadata": {"annotations": {Annotation.LEFT_ON: None}}})
            await self.client.patch(MANAGED_CLUSTERS, key, patch)
        return Done()

    async def _announce(self, found: Object) -> None:
        name = found["metadata"]["name"]
        message = (
            f"the cluster left by `watchword unjoin`; it is deleted after {format_duration(self.retention)}: "
            f"to keep it, run `watchword accept {name}` or `watchword deny {name}`"
        )
        if not is_true(found, ConditionType.CLEANUP_SCHEDULED):
            self.events.normal(found, "ManagedClusterLeft", message)
        scheduled = Condition.true(ConditionType.CLEANUP_SCHEDULED, "ManagedClusterLeft", message)
        await self.status.set_condition(MANAGED_CLUSTERS, found, scheduled)


class ClusterCleanup(Struct, frozen=True):
    """One round of deleting clusters that left."""

    client: Client
    clock: Clock
    retention: timedelta = RETENTION
    dry_run: bool = False

    async def run(self) -> list[str]:
        """Delete what is due and return the names; a cluster that changed meanwhile is left alone."""
        now = self.clock.now()
        listed = (await self.client.list(MANAGED_CLUSTERS)).items
        due = [found for found in listed if is_due_for_deletion(found, retention=self.retention, now=now)]
        return [found["metadata"]["name"] for found in due if await self._delete(found)]

    async def _delete(self, found: Object) -> bool:
        if self.dry_run:
            return True
        try:
            await self.client.delete(
                MANAGED_CLUSTERS,
                ObjectKey.of(found),
                uid=uid_of(found),
                # Acceptance changes the revision: a cluster that came back since the list is not the one we judged.
                resource_version=found["metadata"]["resourceVersion"],
            )
        except (Conflict, NotFound):
            return False
        return True
