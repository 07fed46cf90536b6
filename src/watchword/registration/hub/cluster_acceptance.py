"""Gives an accepted cluster its namespace and rights, and takes the rights from a denied one."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum, auto

from msgspec import Struct, field

from watchword.api import resources
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.cluster import Cluster, validate_cluster_name
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of, is_deleting, labels_of, uid_of
from watchword.api.names import (
    DENIED_REASON,
    HUB_FINALIZERS,
    NAME_CONFLICT,
    Annotation,
    ConditionType,
    Label,
    cluster_role,
)
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials.errors import DriverError, NotGranted
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, Invalid, NotFound
from watchword.registration.catalog import HubDrivers
from watchword.registration.hub import cluster_rbac
from watchword.registration.hub.cluster_lease import lease_manifest
from watchword.registration.hub.cluster_rbac import HubParts
from watchword.registration.hub.cluster_sets import DEFAULT_SET
from watchword.registration.hub.installation import UNGUARDED, is_installed, policy_manifests
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

POLICY_RECHECK = timedelta(seconds=5)
PROBE_USER = "watchword:acceptance-probe"
PROBE_CLUSTER = "watchword-acceptance-probe"
ENFORCED_TTL = timedelta(minutes=10)
UNENFORCED_TTL = timedelta(seconds=4)
CONTENT: tuple[Resource, ...] = (resources.MANAGED_CLUSTER_ADDONS, resources.MANIFEST_WORKS)
"""What is removed from a cluster's namespace, in this order: add-ons first, for they withdraw their own work."""

REMOVAL_PATIENCE = timedelta(minutes=5)  # for an agent that still has its rights
HINDERED_RECHECK = timedelta(minutes=1)  # a driver reports its progress on the cluster, which triggers the reconciler


class AcceptanceGuard(Struct):
    """Checks by dry runs whether the server refuses acceptance by users without the right to accept."""

    client: Client
    clock: Clock
    _is_enforced: bool = False
    _until: datetime | None = None  # when the cached result ends
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def is_enforced(self) -> bool:
        """Whether such users are refused; True is cached for some minutes, False for some seconds."""
        async with self._lock:  # many clusters at once share one request
            now = self.clock.now()
            if self._until is None or now >= self._until:
                self._is_enforced = await self._refuses()
                self._until = now + (ENFORCED_TTL if self._is_enforced else UNENFORCED_TTL)
            return self._is_enforced

    async def _refuses(self) -> bool:
        """Dry-run as a joining cluster: registering must pass, accepting and annotating must not."""
        joining = self.client.impersonating(PROBE_USER, groups=(MANAGED_CLUSTER_GROUP,))
        if not await _is_admitted(joining):  # refused either way, so the response would prove nothing
            return await self._is_installed()
        return not await _is_admitted(joining, accepted=True) and not await _is_admitted(joining, note="probe")

    async def _is_installed(self) -> bool:
        found = [await self.client.find(kind, ObjectKey.of(wanted)) for kind, wanted in policy_manifests()]
        return is_installed([each for each in found if each is not None])


async def _is_admitted(client: Client, *, accepted: bool = False, note: str = "") -> bool:
    metadata = {"annotations": {Annotation.FIRST_KEY: note}} if note else {}
    manifest = resources.MANAGED_CLUSTERS.manifest(
        ObjectKey.cluster(PROBE_CLUSTER), metadata=metadata, spec={"hubAcceptsClient": accepted}
    )
    try:
        await client.create(resources.MANAGED_CLUSTERS, manifest, dry_run=True)
    except (Forbidden, Invalid):
        return False
    return True


class AcceptanceDecision(Enum):
    """What the hub does about a cluster now."""

    NOTHING = auto()  # not decided yet, or it is being removed
    REFUSE_NAME = auto()
    GRANT = auto()
    DENY = auto()
    RECORD_DENIAL = auto()  # it never had rights, and shall not get any


def decide_acceptance(cluster: Cluster, *, has_cluster_rbac: bool) -> AcceptanceDecision:
    """Decide from the object and from the RBAC that exists, because an agent can write the condition."""
    if cluster.deleting:
        return AcceptanceDecision.NOTHING
    if validate_cluster_name(cluster.name):
        return AcceptanceDecision.REFUSE_NAME
    if cluster.accepted:
        return AcceptanceDecision.GRANT
    if has_cluster_rbac or is_true(cluster.object, ConditionType.HUB_ACCEPTED):
        return AcceptanceDecision.DENY
    denied = Annotation.DENIED_ON in cluster.annotations
    return AcceptanceDecision.RECORD_DENIAL if denied else AcceptanceDecision.NOTHING


class ClusterAcceptanceReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; triggered by it and by every object made for it."""

    hub: HubParts
    guard: AcceptanceGuard

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(resources.MANAGED_CLUSTERS, key)
        if found is None:  # its finalizers may have been removed: no right may outlive its cluster
            await remove_cluster_rbac(self.hub, key.name)
            return _outcome_after(await self.hub.retired_cluster_names.remove_expired(key.name))
        cluster = Cluster.read(found)
        match decide_acceptance(cluster, has_cluster_rbac=has_cluster_rbac(self.hub.cache, cluster.name)):
            case AcceptanceDecision.REFUSE_NAME:
                await remove_cluster_rbac(self.hub, cluster.name)  # an earlier version may have granted it
                await self._set_not_accepted(found, "InvalidName", validate_cluster_name(cluster.name) or "")
            case AcceptanceDecision.GRANT:
                # A server may enforce the policy that clusters cannot accept themselves some time after it is stored.
                if not is_true(found, ConditionType.HUB_ACCEPTED) and not await self.guard.is_enforced():
                    await self._set_not_accepted(found, "AdmissionPolicyMissing", UNGUARDED)
                    return RetryAfter(POLICY_RECHECK)
                if not await self._grant(cluster):
                    return RetryAfter(HINDERED_RECHECK)
            case AcceptanceDecision.DENY:
                await self._deny(cluster)
            case AcceptanceDecision.RECORD_DENIAL:
                await self._record_denial(cluster)
            case AcceptanceDecision.NOTHING:
                pass
        return _outcome_after(await self.hub.retired_cluster_names.remove_expired(key.name))

    async def _grant(self, cluster: Cluster) -> bool:
        """Give the cluster what it is entitled to; return False while something that is not watched hinders it."""
        try:
            driver = self.hub.drivers.of(cluster)
        except DriverError as objection:
            await self._set_not_accepted(cluster.object, "RegistrationDriverRefused", str(objection))
            return True
        if await self._release_terminating_bindings(cluster):
            return True  # one was deleted; its removal triggers this reconciler, and it is created again
        current = await self._write_missing_metadata(cluster)
        try:
            await self._write_access(Cluster.read(current))
        except NameConflict as conflict:
            await self._set_not_accepted(current, NAME_CONFLICT, str(conflict))
            return False  # what is in the way belongs to others, whose objects are not watched
        except BeingDeleted as leftover:
            await self._set_not_accepted(current, "LeftoversGoing", str(leftover))
            await self._release_terminating_namespace(Cluster.read(current))
            raise
        try:
            await driver.grant(Cluster.read(current))
        except NotGranted as pending:
            await self._set_not_accepted(current, pending.reason, str(pending))
            return False
        await self._set_accepted(current)
        return True

    async def _set_accepted(self, current: Object) -> None:
        cluster = Cluster.read(current)
        objection = self.hub.drivers.find_changed_claim(cluster)
        if objection:
            self.hub.events.refusal(current, "DriverChangeRefused", objection)
        note = self.hub.retired_cluster_names.condition_note(current)
        message = f"the hub's administrator accepted this cluster{note}"
        if not is_true(current, ConditionType.HUB_ACCEPTED):
            self.hub.events.normal(current, "ManagedClusterAccepted", f"cluster {cluster.name} is accepted")
        accepted = Condition.true(ConditionType.HUB_ACCEPTED, "HubClusterAdminAccepted", message)
        await self.hub.status.set_condition(resources.MANAGED_CLUSTERS, current, accepted)

    async def _release_terminating_bindings(self, cluster: Cluster) -> bool:
        """Take the finalizer from bindings that are being deleted: while it stays they neither work nor go."""
        bindings = [self.hub.cache.get(resources.ROLE_BINDINGS, key) for key in cluster_rbac.binding_keys(cluster.name)]
        going = [binding for binding in bindings if binding is not None and is_deleting(binding)]
        for binding in going:
            await force_delete_binding(self.hub, ObjectKey.of(binding))
        return bool(going)

    async def _release_terminating_namespace(self, cluster: Cluster) -> None:
        """Drop the finalizers that keep a namespace from going: no agent has rights in it to finish the removal."""
        found = self.hub.cache.get(resources.NAMESPACES, cluster.key) or {}
        since = parse_rfc3339((found.get("metadata") or {}).get("deletionTimestamp") or "")
        if since is None or self.hub.clock.now() - since < REMOVAL_PATIENCE:
            return
        for resource in CONTENT:
            for obj in self.hub.cache.list(resource, namespace=cluster.name):
                if is_deleting(obj) and finalizers_of(obj):
                    await drop_finalizers(self.hub, cluster, resource, obj)

    async def _write_missing_metadata(self, cluster: Cluster) -> Object:
        metadata = choose_missing_metadata(cluster)
        notes = self.hub.drivers.choose_note(cluster)
        if self.hub.retired_cluster_names.is_retired(cluster.name) and not cluster.name_used_before:
            notes[Annotation.NAME_USED_BEFORE] = "true"
        if notes:
            metadata["annotations"] = notes
        if not metadata:
            return cluster.object
        patch = with_preconditions(cluster.object, {"metadata": metadata})
        return await self.hub.client.patch(resources.MANAGED_CLUSTERS, cluster.key, patch)

    async def _write_access(self, cluster: Cluster) -> None:
        ours = belongs_to(cluster.name)
        ensure, subjects = self.hub.ensurer.ensure, self.hub.retired_cluster_names.subjects(cluster.object)
        role = cluster_rbac.cluster_role_manifest(cluster, cluster_rbac.accepted_rules(cluster.name))
        cluster_wide, *others = cluster_rbac.binding_manifests(cluster, subjects)
        lease = lease_manifest(cluster, now=self.hub.clock.now())  # before its agent comes
        # First, because a namespace with another owner gets no rights at all.
        await ensure(resources.NAMESPACES, cluster_rbac.namespace_manifest(cluster), ours=ours)
        await asyncio.gather(
            ensure(resources.CLUSTER_ROLES, role, ours=ours),
            ensure(resources.CLUSTER_ROLE_BINDINGS, cluster_wide, ours=ours),
        )
        await asyncio.gather(
            *(ensure(resources.ROLE_BINDINGS, binding, ours=ours) for binding in others),
            self.hub.ensurer.ensure_exists(resources.LEASES, lease),
        )

    async def _deny(self, cluster: Cluster) -> None:
        ours = belongs_to(cluster.name)
        role = cluster_rbac.cluster_role_manifest(cluster, cluster_rbac.denied_rules(cluster.name))
        await self.hub.ensurer.ensure(resources.CLUSTER_ROLES, role, ours=ours)
        for key in cluster_rbac.binding_keys(cluster.name):
            await force_delete_binding(self.hub, key)
        await self.hub.drivers.revoke(cluster)
        if Annotation.ACCEPTED_DRIVER in cluster.annotations:
            forgotten = {"metadata": {"annotations": {Annotation.ACCEPTED_DRIVER: None}}}
            patch = with_preconditions(cluster.object, forgotten)
            cluster = Cluster.read(await self.hub.client.patch(resources.MANAGED_CLUSTERS, cluster.key, patch))
        self.hub.events.normal(cluster.object, "RightsRevoked", f"the rights of cluster {cluster.name} are revoked")
        await self._record_denial(cluster)

    async def _record_denial(self, cluster: Cluster) -> None:
        said = find_condition(cluster.object, ConditionType.HUB_ACCEPTED)
        if said is None or said.reason != DENIED_REASON:
            self.hub.events.normal(cluster.object, "ManagedClusterDenied", f"cluster {cluster.name} is denied")
        await self._set_not_accepted(cluster.object, DENIED_REASON, "the hub's administrator denied this cluster")

    async def _set_not_accepted(self, obj: Object, reason: str, message: str) -> None:
        known = find_condition(obj, ConditionType.HUB_ACCEPTED)
        if reason != DENIED_REASON and (known is None or known.reason != reason):
            self.hub.events.warning(obj, "ManagedClusterNotAccepted", f"{reason}: {message}")
        refusal = Condition.false(ConditionType.HUB_ACCEPTED, reason, message)
        await self.hub.status.set_condition(resources.MANAGED_CLUSTERS, obj, refusal)


async def drop_finalizers(hub: HubParts, cluster: Cluster, resource: Resource, obj: Object) -> None:
    """Complete the removal of an object whose agent cannot; `NotFound` when another writer was faster."""
    await hub.client.patch(resource, ObjectKey.of(obj), with_preconditions(obj, {"metadata": {"finalizers": None}}))
    what = f"{resource.plural}/{obj['metadata']['name']}"
    note = f"{what} is removed without its agent: the cluster is gone and cannot finish the removal itself"
    # About the cluster: its namespace takes no more Events once it is being deleted.
    hub.events.warning(cluster.object, "FinalizersDropped", note, action=what)


def _outcome_after(delay: timedelta | None) -> Outcome:
    return Done() if delay is None else RetryAfter(delay)


def choose_missing_metadata(cluster: Cluster) -> Object:
    """Return what is missing of finalizers and default set, for one write before anything exists to be cleaned."""
    metadata: Object = {}
    missing = [name for name in HUB_FINALIZERS if name not in cluster.finalizers]
    if missing:
        metadata["finalizers"] = [*cluster.finalizers, *missing]
    if not cluster.cluster_set:
        metadata["labels"] = {Label.CLUSTER_SET: DEFAULT_SET}
    return metadata


def belongs_to(cluster: str) -> Callable[[Object], bool]:
    return lambda obj: labels_of(obj).get(Label.CLUSTER_NAME) == cluster


def has_cluster_rbac(reader: Reader, cluster: str) -> bool:
    """Whether anything is left of what only an accepted cluster has; no agent can write any of it."""
    role = reader.get(resources.CLUSTER_ROLES, ObjectKey.cluster(cluster_role(cluster)))
    bindings = [reader.get(resources.ROLE_BINDINGS, key) for key in cluster_rbac.binding_keys(cluster)]
    ours = belongs_to(cluster)
    may_act = role is not None and ours(role) and role.get("rules") != cluster_rbac.denied_rules(cluster)
    return may_act or any(binding is not None and ours(binding) for binding in bindings)


def was_accepted_before(reader: Reader, cluster: Cluster) -> bool:
    """Whether this very cluster was accepted before, by the one record that its agent cannot write."""
    role = reader.get(resources.CLUSTER_ROLES, ObjectKey.cluster(cluster_role(cluster.name)))
    owners = role["metadata"].get("ownerReferences") or [] if role is not None else []
    return any(owner.get("uid") == uid_of(cluster.object) for owner in owners)


async def remove_cluster_rbac(hub: HubParts, cluster: str) -> None:
    """Delete every right that was made for a cluster; one that does not exist is no error."""
    for key in cluster_rbac.binding_keys(cluster):
        await force_delete_binding(hub, key)
    role = ObjectKey.cluster(cluster_role(cluster))
    for resource in (resources.CLUSTER_ROLE_BINDINGS, resources.CLUSTER_ROLES):
        with contextlib.suppress(NotFound):  # the garbage collector was faster
            await hub.ensurer.remove(resource, role, ours=belongs_to(cluster))


async def force_delete_binding(hub: HubParts, key: ObjectKey) -> None:
    """Delete a binding at once, without waiting for what its finalizer waits for."""
    binding = hub.cache.get(resources.ROLE_BINDINGS, key)
    if binding is None or not belongs_to(key.namespace)(binding):
        return
    with contextlib.suppress(NotFound):  # removing the finalizer completes the deletion of the binding
        if binding["metadata"].get("finalizers"):
            patch = with_preconditions(binding, {"metadata": {"finalizers": None}})
            binding = await hub.client.patch(resources.ROLE_BINDINGS, key, patch)
        await hub.client.delete(resources.ROLE_BINDINGS, key, uid=binding["metadata"]["uid"])


class ClusterAutoAcceptanceReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; accepts it once when a driver approves it, so that a later denial stands."""

    hub: HubParts

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(resources.MANAGED_CLUSTERS, key)
        if found is None:
            return Done()
        cluster = Cluster.read(found)
        if is_undecided(found) and self.hub.drivers.is_auto_accepted(cluster):
            drivers, now = self.hub.drivers, self.hub.clock.now()
            patch = auto_acceptance_patch(self.hub.cache, drivers, found, driver=drivers.name_of(cluster), now=now)
            if patch:
                await self.hub.client.patch(resources.MANAGED_CLUSTERS, key, with_preconditions(found, patch))
        return Done()


def auto_acceptance_patch(reader: Reader, drivers: HubDrivers, found: Object, *, driver: str, now: datetime) -> Object:
    """Return what accepts a cluster of that driver without a person; empty for others, and where it is decided."""
    cluster = Cluster.read(found)
    try:
        is_concerned = is_undecided(found) and drivers.name_of(cluster) == driver
    except DriverError:
        return {}
    if not is_concerned or was_accepted_before(reader, cluster):  # the agent may have erased the annotation
        return {}
    notes = {Annotation.AUTO_ACCEPTED_ON: rfc3339(now), **drivers.choose_note(cluster)}
    return {"metadata": {**choose_missing_metadata(cluster), "annotations": notes}, "spec": {"hubAcceptsClient": True}}


def is_undecided(found: Object) -> bool:
    cluster = Cluster.read(found)
    decided = {Annotation.AUTO_ACCEPTED_ON, Annotation.DENIED_ON} & cluster.annotations.keys()
    return not (cluster.deleting or cluster.accepted or decided)
