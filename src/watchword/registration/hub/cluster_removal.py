"""Removes everything a deleted cluster had on the hub, in an order that lets its agent finish."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, conditions_of, find_condition, is_true
from watchword.api.limits import LEFT_CLUSTER_RETENTION
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, finalizers_of, is_deleting, uid_of
from watchword.api.names import DENIED_REASON, HUB_FINALIZERS, Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTERS, NAMESPACES, ROLE_BINDINGS
from watchword.api.time import parse_rfc3339
from watchword.api.validation import format_duration, parse_duration
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.registration.hub import cluster_acceptance
from watchword.registration.hub.cluster_rbac import HubParts, binding_keys
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import remove_finalizer, with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange

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
    """Reconciles ManagedCluster; reports when a cluster that left will be deleted, until it comes back."""

    hub: HubParts

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(MANAGED_CLUSTERS, key)
        if found is None:
            return Done()
        if has_left(found):
            await self._announce(found)
            return Done()
        await self.hub.status.write(MANAGED_CLUSTERS, found, StatusChange(without=(ConditionType.CLEANUP_SCHEDULED,)))
        if Cluster.read(found).accepted and Annotation.LEFT_ON in annotations_of(found):
            # A record of leaving holds for one acceptance: the next denial is an administrator's.
            patch = with_preconditions(found, {"metadata": {"annotations": {Annotation.LEFT_ON: None}}})
            await self.hub.client.patch(MANAGED_CLUSTERS, key, patch)
        return Done()

    async def _announce(self, found: Object) -> None:
        name = found["metadata"]["name"]
        kept = format_duration(self.hub.left_cluster_retention)
        message = (
            f"the cluster left by `watchword unjoin`; it is deleted after {kept}: "
            f"to keep it, run `watchword accept {name}` or `watchword deny {name}`"
        )
        if not is_true(found, ConditionType.CLEANUP_SCHEDULED):
            self.hub.events.normal(found, "ManagedClusterLeft", message)
        scheduled = Condition.true(ConditionType.CLEANUP_SCHEDULED, "ManagedClusterLeft", message)
        await self.hub.status.set_condition(MANAGED_CLUSTERS, found, scheduled)


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
                # Acceptance changes the revision: a cluster that came back since the list must stay.
                resource_version=found["metadata"]["resourceVersion"],
            )
        except (Conflict, NotFound):
            return False
        return True


RECHECK = timedelta(minutes=5)  # changes trigger this reconciler; the delay is for an event that was lost
LAST_PRIORITY = 100


class ClusterRemovalReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; triggered by it and by the content of its namespace."""

    hub: HubParts

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(MANAGED_CLUSTERS, key)
        if found is None or not is_deleting(found):
            return Done()
        cluster = Cluster.read(found)
        remaining = await self._delete_content(cluster)
        if remaining:
            return await self._wait_for(found, remaining)
        if read_name_owner(found) is not None or cluster_acceptance.was_accepted_before(self.hub.cache, cluster):
            await self.hub.retired_cluster_names.retire(cluster)
        await cluster_acceptance.remove_cluster_rbac(self.hub, cluster.name)
        await self.hub.drivers.revoke(cluster)  # last: without rights, what is left elsewhere is useless
        outside = self.hub.drivers.remaining(cluster)
        if outside:
            return await self._wait_for(found, outside)
        ours = cluster_acceptance.belongs_to(cluster.name)
        if await self.hub.ensurer.remove(NAMESPACES, cluster.key, ours=ours):
            await self._set_deleting_condition(found, "NoResource", "waiting until the namespace is deleted")
        await self._release(cluster)
        return Done()

    async def _delete_content(self, cluster: Cluster) -> list[str]:
        """Delete what is left of the first kind that is left; return what is waited for."""
        for resource in cluster_acceptance.CONTENT:
            left = self.hub.cache.list(resource, namespace=cluster.name)
            if not left:  # or not in the cache yet: without rights no agent could remove it later
                left = (await self.hub.client.list(resource, namespace=cluster.name)).items
            if left:
                for obj in choose_next_to_delete(left):
                    await self._delete(cluster, resource, obj)
                return [f"{resource.plural}/{obj['metadata']['name']}" for obj in left[:5]]
        return []

    async def _delete(self, cluster: Cluster, resource: Resource, obj: Object) -> None:
        key = ObjectKey.of(obj)
        with suppress(NotFound):  # another writer was faster
            if not is_deleting(obj):
                await self.hub.client.delete(resource, key, uid=uid_of(obj))
            elif finalizers_of(obj) and is_abandoned(self.hub.cache, cluster):
                await cluster_acceptance.drop_finalizers(self.hub, cluster, resource, obj)

    async def _release(self, cluster: Cluster) -> None:
        if any(name in HUB_FINALIZERS for name in cluster.finalizers):
            self.hub.events.normal(
                cluster.object, "ManagedClusterRemoved", f"all resources of cluster {cluster.name} were deleted"
            )
            await remove_finalizer(self.hub.client, MANAGED_CLUSTERS, cluster.object, *HUB_FINALIZERS)

    async def _wait_for(self, found: Object, remaining: list[str]) -> Outcome:
        message = f"waiting for the deletion of {', '.join(remaining)}"
        await self._set_deleting_condition(found, "ResourceRemaining", message)
        return RetryAfter(RECHECK)

    async def _set_deleting_condition(self, obj: Object, reason: str, message: str) -> None:
        deleting = Condition.true(ConditionType.DELETING, reason, message)
        await self.hub.status.set_condition(MANAGED_CLUSTERS, obj, deleting)


def clusters_being_removed(reader: Reader, obj: Object) -> list[ObjectKey]:
    key = ObjectKey.cluster(obj["metadata"]["namespace"])
    cluster = reader.get(MANAGED_CLUSTERS, key)
    return [key] if cluster is not None and is_deleting(cluster) else []


def choose_next_to_delete(objects: Iterable[Object]) -> list[Object]:
    """Return the objects to delete next: those with the lowest clean-up priority."""
    rows = [(cleanup_priority(obj), obj) for obj in objects]
    lowest = min((priority for priority, _ in rows), default=LAST_PRIORITY)
    return [obj for priority, obj in rows if priority == lowest]


def cleanup_priority(obj: Object) -> int:
    """Return 0 to 100; an unreadable value counts as unset."""
    text = annotations_of(obj).get(Annotation.CLEANUP_PRIORITY, "0")
    return min(LAST_PRIORITY, int(text.lstrip("0")[:4] or "0")) if text.isascii() and text.isdigit() else 0


def is_abandoned(reader: Reader, cluster: Cluster) -> bool:
    """Whether no agent will come to finish: it never joined, was denied, lost its rights, or went silent."""
    joined = find_condition(cluster.object, ConditionType.JOINED)
    available = find_condition(cluster.object, ConditionType.AVAILABLE)
    binding = reader.get(ROLE_BINDINGS, binding_keys(cluster.name)[1]) or {}  # the one for work
    has_rights = is_true(cluster.object, ConditionType.HUB_ACCEPTED) and binding.get("subjects")
    return joined is None or not has_rights or (available is not None and available.status == "Unknown")
