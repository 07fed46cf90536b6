"""Marks a cluster Unknown once its agent stops renewing its lease, and taints unavailable clusters."""

from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import CLUSTER_LEASE, LEASE_EXPIRED_REASON, Annotation, ConditionType, Label
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.api.time import parse_rfc3339, rfc3339, rfc3339_micro
from watchword.registration.hub.cluster_rbac import HubParts
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Done, Outcome, RetryAfter

MISSED_RENEWALS_TOLERATED = 5


class LeaseObservation(Struct, frozen=True):
    """When the lease changed by the hub's clock; `live` when the hub saw it change since it started."""

    renew_time: str
    seen_at: datetime
    live: bool
    reported_at: datetime | None = None  # when the agent contradicted the hub, which had called it silent


class ClusterLeaseReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster; triggered by it and by the lease in its namespace.

    The time without renewal is measured by the hub's own clock from the last change it saw, which distinguishes an
    agent with a wrong clock from an agent that is gone. An agent that reports itself available after the hub called it
    silent counts as back before it renews its lease: otherwise both would overwrite each other's condition.
    """

    hub: HubParts
    seen: dict[ObjectKey, LeaseObservation] = field(default_factory=dict)
    steady: dict[ObjectKey, timedelta] = field(default_factory=dict)  # a renewal within this skew changes nothing
    silent: set[ObjectKey] = field(default_factory=set)  # clusters whose agents this process called silent

    def clusters_affected_by(self, lease: Object) -> list[ObjectKey]:
        """Record the renewal of a lease; return its cluster only when the renewal may change a condition.

        Renewals are most of what a large fleet sends: the next one is awaited from the recorded instant.
        """
        name = labels_of(lease).get(Label.CLUSTER_NAME, "")
        lease_key, key = ObjectKey.of(lease), ObjectKey.cluster(name)
        if not name or lease_key != ObjectKey(name, CLUSTER_LEASE):
            return []
        current, before, tolerated = self.hub.cache.get(LEASES, lease_key), self.seen.get(key), self.steady.get(key)
        if current is None or before is None or tolerated is None:
            return [key]
        renew_time, now = _renew_time(current), self.hub.clock.now()
        if renew_time == before.renew_time:
            return []
        renewed_at = parse_rfc3339(renew_time)
        if renewed_at is None or abs(renewed_at - now) >= tolerated:
            return [key]
        self.seen[key] = LeaseObservation(renew_time, now, live=True)
        return []

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(MANAGED_CLUSTERS, key)
        self.steady.pop(key, None)
        if found is None:
            self.seen.pop(key, None)
            self.silent.discard(key)
            return Done()
        cluster = Cluster.read(found)
        accepted = is_true(found, ConditionType.HUB_ACCEPTED)
        # A denied agent cannot renew its lease: its last reported condition stays until the lease expires.
        if not accepted and not is_true(found, ConditionType.AVAILABLE):
            return Done()

        lease = self.hub.cache.get(LEASES, cluster.lease_key)
        if lease is None and accepted and not cluster.deleting:
            await self.hub.ensurer.ensure_exists(LEASES, lease_manifest(cluster, now=self.hub.clock.now()))
            return Done()  # its arrival triggers this again
        if lease is not None and not cluster.deleting and not _renew_time(lease):
            # An earlier version made it: OCM's controllers cannot read one without a renewal.
            patch = with_preconditions(lease, {"spec": {"renewTime": _first_renew_time(self.hub.clock.now())}})
            await self.hub.client.patch(LEASES, ObjectKey.of(lease), patch)
            return Done()  # its change triggers this again
        observed = await self._observe(key, lease or {})
        if key in self.silent and is_true(found, ConditionType.AVAILABLE):
            observed = self.seen[key] = replace(observed, reported_at=self.hub.clock.now())
        decision = decide_lease_conditions(cluster, observed, now=self.hub.clock.now())
        await self.hub.status.set_conditions(MANAGED_CLUSTERS, found, decision.conditions)
        if decision.is_silent:
            self.silent.add(key)
        else:
            self.silent.discard(key)
        if observed.live and not decision.conditions and is_steady(cluster):
            self.steady[key] = lease_patience(cluster)
        return RetryAfter(decision.recheck_in)

    async def _observe(self, key: ObjectKey, lease: Object) -> LeaseObservation:
        renew_time = _renew_time(lease)
        before = self.seen.get(key)
        if before is None:
            self.seen[key] = LeaseObservation(renew_time, await self._last_write(lease), live=False)
        elif before.renew_time != renew_time:
            self.seen[key] = LeaseObservation(renew_time, self.hub.clock.now(), live=True)
        return self.seen[key]

    async def _last_write(self, lease: Object) -> datetime:
        """Return when a lease that is seen for the first time was last written.

        Where its agent's clock is ahead, the API server tells: the hub may restart more often than its patience ends.
        """
        now, renewed_at = self.hub.clock.now(), renewal_time(lease)
        if renewed_at is None or renewed_at <= now:
            return now
        stored = await self.hub.client.find(LEASES, ObjectKey.of(lease))  # the cache keeps no managedFields
        return min(now, last_write_time(stored or {}) or now)


def renewal_time(lease: Object) -> datetime | None:
    """Return when the agent, by its own clock, last renewed a lease; None when it never did."""
    return parse_rfc3339(_renew_time(lease))


def _renew_time(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("renewTime") or "")


def lease_patience(cluster: Cluster) -> timedelta:
    """Return how long a lease may go without renewal before its agent counts as gone."""
    return cluster.lease_duration * MISSED_RENEWALS_TOLERATED


def is_steady(cluster: Cluster) -> bool:
    agrees = is_true(cluster.object, ConditionType.CLOCK_SYNCED) or _skips_clock_check(cluster)
    return cluster.accepted and not cluster.deleting and agrees


def _skips_clock_check(cluster: Cluster) -> bool:
    return cluster.annotations.get(Annotation.SKIP_CLOCK_CHECK) == "true"


def last_write_time(obj: Object) -> datetime | None:
    """Return when the API server last saw a field of an object change; None when it does not tell."""
    rows = (obj.get("metadata") or {}).get("managedFields") or []
    instants = [instant for row in rows if (instant := parse_rfc3339(str(row.get("time") or ""))) is not None]
    return max(instants, default=None)


class LeaseDecision(Struct, frozen=True):
    """The conditions that follow from the lease; none where the agent's own condition applies."""

    conditions: tuple[Condition, ...]
    recheck_in: timedelta
    is_silent: bool = False


def lease_manifest(cluster: Cluster, *, now: datetime) -> Object:
    """Return the lease that the cluster's agent renews, with the hub's own time as the first renewal."""
    return LEASES.manifest(
        cluster.lease_key,
        metadata={"labels": {Label.CLUSTER_NAME: cluster.name}},
        spec={
            "holderIdentity": cluster.name,
            "leaseDurationSeconds": int(cluster.lease_duration.total_seconds()),
            "renewTime": _first_renew_time(now),
        },
    )


def _first_renew_time(now: datetime) -> str:
    return rfc3339_micro(now - timedelta(microseconds=1))


def decide_lease_conditions(cluster: Cluster, observed: LeaseObservation, *, now: datetime) -> LeaseDecision:
    """Decide from facts alone: no I/O and no hidden clock, so every case is one table row."""
    patience = lease_patience(cluster)
    renewed_at = parse_rfc3339(observed.renew_time)
    expected = cluster.deleting or not cluster.accepted
    if renewed_at is None and not expected:  # the agent has not come yet, so there is nothing to miss
        return LeaseDecision((), recheck_in=patience)

    # A deleted or denied cluster is judged on, also without a lease: its agent may never come again.
    clock = _decide_clock_condition(cluster, observed, renewed_at, patience) if renewed_at else ()
    known = (observed.seen_at, renewed_at or cluster.deleted_at or now)  # what a restart of the hub does not forget
    heard_at = observed.seen_at if observed.live else min(known)
    silent_for = now - max(heard_at, observed.reported_at or heard_at)
    if silent_for < patience:
        return LeaseDecision(clock, recheck_in=patience - silent_for)
    silent = Condition.unknown(
        ConditionType.AVAILABLE,
        LEASE_EXPIRED_REASON,
        "the agent stopped renewing its lease: check that it runs and reaches the hub",
    )
    return LeaseDecision((silent, *clock), recheck_in=patience, is_silent=True)


def _decide_clock_condition(
    cluster: Cluster, observed: LeaseObservation, renewed_at: datetime, patience: timedelta
) -> tuple[Condition, ...]:
    """Compare clocks at a renewal that was seen to happen; an old lease found at start proves nothing."""
    if not observed.live or _skips_clock_check(cluster):
        return ()
    skew = renewed_at - observed.seen_at
    if abs(skew) >= patience:
        way = "ahead of" if skew > timedelta(0) else "behind"
        message = (
            f"the agent's clock is {int(abs(skew).total_seconds())} seconds {way} the hub's: "
            "synchronise both with a time server"
        )
        return (Condition.false(ConditionType.CLOCK_SYNCED, "ManagedClusterClockOutOfSync", message),)
    known = find_condition(cluster.object, ConditionType.CLOCK_SYNCED)
    if known is None and not is_true(cluster.object, ConditionType.JOINED):
        return ()  # the agent is about to report that it has joined, in the same list: two writers would conflict
    if known is None or known.status != "True":
        return (Condition.true(ConditionType.CLOCK_SYNCED, "ManagedClusterClockSynced", "the clocks agree"),)
    return ()


UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"


class ClusterTaintReconciler(Struct, frozen=True):
    """Reconciles ManagedCluster."""

    hub: HubParts

    def concerns(self, cluster: Object) -> bool:
        return choose_taints(cluster, now=self.hub.clock.now()) is not None

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(MANAGED_CLUSTERS, key)
        if found is None or Cluster.read(found).deleting:
            return Done()
        taints = choose_taints(found, now=self.hub.clock.now())
        if taints is not None:
            await self.hub.client.patch(MANAGED_CLUSTERS, key, with_preconditions(found, {"spec": {"taints": taints}}))
        return Done()


def choose_taints(cluster: Object, *, now: datetime) -> list[Object] | None:
    """Return the taints a cluster should have, None when it has them; one that never joined is left alone."""
    present: list[Object] = (cluster.get("spec") or {}).get("taints") or []
    available = find_condition(cluster, ConditionType.AVAILABLE)
    wanted = None if available is None else {"True": None, "False": UNAVAILABLE}.get(available.status, UNREACHABLE)
    kept = [taint for taint in present if taint.get("key") not in {UNAVAILABLE, UNREACHABLE} - {wanted}]
    if wanted and all(taint.get("key") != wanted for taint in kept):
        kept.append({"key": wanted, "effect": "NoSelect", "timeAdded": rfc3339(now)})
    return kept if kept != present else None
