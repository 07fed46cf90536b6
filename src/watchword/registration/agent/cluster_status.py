"""Renews this cluster's lease on the hub, and reports its state: joined, available, version, size, claims."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, field

from watchword import __version__
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.credential_report import format_issued, format_used
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import AGENT_VERSION_CLAIM, LEASE_EXPIRED_REASON, ConditionType, Label
from watchword.api.quantity import UNITS, parse_quantity, quantity_suffix
from watchword.api.resources import CLUSTER_CLAIMS, LEASES, MANAGED_CLUSTERS, NODES
from watchword.api.time import rfc3339_micro
from watchword.credentials.driver import CredentialKind, CredentialStatus, NewCredential, Pending, ValidCredential
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError
from watchword.registration.agent.hub_connection import HubConnection
from watchword.registration.agent.hub_session import HubSession
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange

JITTER = 0.25  # of the period, so that a fleet that started together does not stay together


class LeaseRenewalReconciler(Struct, frozen=True):
    """Reconciles this cluster's own ManagedCluster on the hub; one request for each renewal, and no reads."""

    reader: Reader  # of the hub
    hub: Client
    clock: Clock
    random: Random
    connection: HubConnection  # as a joining cluster the agent may not renew anything
    due: dict[ObjectKey, datetime] = field(default_factory=dict)
    renewed_at: dict[ObjectKey, datetime] = field(default_factory=dict)
    held: dict[ObjectKey, Object] = field(default_factory=dict)  # as last stored, where it may only be replaced

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(MANAGED_CLUSTERS, key)
        if found is None or not is_true(found, ConditionType.HUB_ACCEPTED) or not self.connection.uses_own_credential:
            return Done()
        cluster, now = Cluster.read(found), self.clock.now()
        due = self.due.get(key)
        if due is None and not is_true(found, ConditionType.JOINED):
            # The hub has just made the lease, with a renewal of its own.
            due = self.due[key] = now + choose_renewal_delay(cluster.lease_duration, self.random)
        # What the hub says of a lease that this process has not renewed yet is about another writer of it.
        is_objected = key not in self.renewed_at and (says_lease_expired(found) or _clock_is_off(found))
        if due is not None and now < due <= now + cluster.lease_duration and not is_objected:
            return RetryAfter(due - now)
        await self._renew(cluster.lease_key, {"renewTime": rfc3339_micro(now)})
        delay = choose_renewal_delay(cluster.lease_duration, self.random)
        self.due[key], self.renewed_at[key] = now + delay, now
        return RetryAfter(delay)

    def is_renewed(self, key: ObjectKey) -> bool:
        """Whether the lease was renewed lately: within two of its durations, where the hub waits for five."""
        cluster, renewed_at = self.reader.get(MANAGED_CLUSTERS, key), self.renewed_at.get(key)
        if cluster is None or renewed_at is None:
            return False
        return renewed_at <= self.clock.now() < renewed_at + 2 * Cluster.read(cluster).lease_duration

    async def _renew(self, key: ObjectKey, spec: Object) -> None:
        """Patch the lease; OCM's hub lets agents only replace it, and that takes the whole object."""
        lease = self.held.pop(key, None)
        if lease is None:
            try:
                await self.hub.patch(LEASES, key, {"spec": spec})
            except Forbidden:
                lease = await self.hub.get(LEASES, key)
            else:
                return
        self.held[key] = await self.hub.update(LEASES, {**lease, "spec": {**(lease.get("spec") or {}), **spec}})


def choose_renewal_delay(period: timedelta, random: Random) -> timedelta:
    """Return how long to wait: never longer than the period, or the hub would count it as missed."""
    return period * (1 - JITTER * random.random())


MAX_WATCH_SILENCE = timedelta(seconds=75)  # a watch receives something every minute, at least a bookmark
HEALTH_CACHE_DURATION = timedelta(seconds=5)  # the report of a check triggers the next one at once
VERSION_CACHE_DURATION = timedelta(minutes=10)


class ClusterHealth(Struct, frozen=True):
    """The health that the cluster's own API server reports."""

    version: str
    error: str = ""  # empty when it is healthy


class _VersionInfo(msgspec.Struct, rename="camel"):
    git_version: str = ""


class ApiServerHealthCheck(Struct):
    """A watch that received something lately proves the API server alive; only a silent one is checked."""

    cluster: Client
    cache: Cache
    _version: str = ""
    _read_at: float = float("-inf")
    _checked_at: float = float("-inf")

    async def check(self) -> ClusterHealth:
        """Return the version and, when something is wrong, what."""
        try:
            now = asyncio.get_running_loop().time
            if self._is_silent() and now() - self._checked_at > HEALTH_CACHE_DURATION.total_seconds():
                await self.cluster.read("/livez")
                self._checked_at = now()
            if now() - self._read_at > VERSION_CACHE_DURATION.total_seconds():
                self._version = msgspec.json.decode(await self.cluster.read("/version"), type=_VersionInfo).git_version
                self._read_at = now()
        except (KubeError, msgspec.MsgspecError) as error:
            return ClusterHealth(self._version, error=str(error))
        return ClusterHealth(self._version)

    def _is_silent(self) -> bool:
        ages = [informer.age() for informer in self.cache.informers(NODES)]
        return not ages or any(age is None or age > MAX_WATCH_SILENCE.total_seconds() for age in ages)


RESERVED_CLAIMS = frozenset(
    {
        "id.k8s.io",
        "kubeversion.open-cluster-management.io",
        "platform.open-cluster-management.io",
        "product.open-cluster-management.io",
    }
)


class ClaimPolicy(Struct, frozen=True):
    """Which claims reach the hub."""

    max_custom: int = 20
    reserved_suffixes: tuple[str, ...] = ()

    def is_reserved(self, name: str) -> bool:
        return name in RESERVED_CLAIMS or any(name.endswith(suffix) for suffix in self.reserved_suffixes)


def sum_resources(nodes: Iterable[Object], field: str) -> dict[str, str]:
    """Add up `capacity` or `allocatable` over nodes; what cannot be read counts as nothing."""
    totals: dict[str, Fraction] = {}
    shapes: dict[str, str] = {}
    for node in nodes:
        if field == "allocatable" and (node.get("spec") or {}).get("unschedulable"):
            continue
        for name, text in ((node.get("status") or {}).get(field) or {}).items():
            totals[name] = totals.get(name, Fraction(0)) + (parse_quantity(str(text)) or 0)
            shapes.setdefault(name, str(text))
    return {name: _write_sum(totals[name], shapes[name]) for name in sorted(totals)}


def _write_sum(total: Fraction, shape: str) -> str:
    suffix = quantity_suffix(shape)
    for unit in (suffix if suffix in UNITS else "", ""):
        scaled = total / UNITS[unit]
        if scaled.denominator == 1:
            return f"{scaled}{unit}"
    return f"{round(total * 1000)}m"


def choose_claims(claims: Sequence[Object], policy: ClaimPolicy) -> list[dict[str, str]]:
    """Return the claims to report: reserved ones first, then as many of the user's as the policy allows."""
    rows = sorted(
        (claim["metadata"]["name"], str((claim.get("spec") or {}).get("value") or ""))
        for claim in claims
        if Label.SPOKE_ONLY not in labels_of(claim)
    )
    reserved = [row for row in rows if policy.is_reserved(row[0])]
    custom = [row for row in rows if not policy.is_reserved(row[0])][: policy.max_custom]
    return [{"name": name, "value": value} for name, value in (*reserved, *custom) if value]


def with_agent_version(claims: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the claims with the release of this agent, which no ClusterClaim can replace."""
    own = {"name": AGENT_VERSION_CLAIM, "value": __version__}
    return [own, *(claim for claim in claims if claim["name"] != AGENT_VERSION_CLAIM)]


def cluster_status_fields(version: str, nodes: Sequence[Object], claims: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "version": {"kubernetes": version},
        "capacity": sum_resources(nodes, "capacity"),
        "allocatable": sum_resources(nodes, "allocatable"),
        "clusterClaims": claims,
    }


LEASE_RECHECK = timedelta(seconds=1)


class ClusterStatusReconciler(Struct, frozen=True):
    """Reconciles this cluster's own ManagedCluster on the hub; triggered by it, by nodes and by claims."""

    hub: ApiServerConnection
    cluster: Reader
    health: ApiServerHealthCheck
    policy: ClaimPolicy
    session: HubSession  # as a joining cluster the agent may not report anything
    credential: CredentialKind  # how the cluster's own is reported
    lease: LeaseRenewalReconciler

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.cache.get(MANAGED_CLUSTERS, key)
        if found is None or not is_true(found, ConditionType.HUB_ACCEPTED) or not self.session.uses_own_credential:
            return Done()
        if _clock_is_off(found):  # its conditions would be misleading; the lease is still renewed
            return RetryAfter(Cluster.read(found).lease_duration)
        if says_lease_expired(found) and not self.lease.is_renewed(key):
            return RetryAfter(LEASE_RECHECK)  # the hub is the one writer of this condition until the lease is renewed
        health = await self.health.check()
        claims = with_agent_version(choose_claims(self.cluster.list(CLUSTER_CLAIMS), self.policy))
        facts = cluster_status_fields(health.version, self.cluster.list(NODES), claims) if health.version else {}
        held, refusal, used = self.session.held, self.session.refusal, self.session.used_credential_id
        reported = decide_credential_conditions(self.credential, held, refusal, used=used)
        change = StatusChange(conditions=(*decide_cluster_conditions(health), *reported), fields=facts)
        await self.hub.status.write(MANAGED_CLUSTERS, found, change)
        return RetryAfter(Cluster.read(found).lease_duration)


def decide_cluster_conditions(health: ClusterHealth) -> tuple[Condition, ...]:
    joined = Condition.true(ConditionType.JOINED, "ManagedClusterJoined", "the cluster has joined this hub")
    if health.error:
        message = f"the cluster's API server is not healthy: {health.error}"
        down = Condition.false(ConditionType.AVAILABLE, "ManagedClusterKubeAPIServerUnavailable", message)
        return joined, down
    up = Condition.true(ConditionType.AVAILABLE, "ManagedClusterAvailable", "the cluster is available")
    return joined, up


def decide_credential_conditions(
    kind: CredentialKind, held: ValidCredential | NewCredential | None, refusal: Pending | None, *, used: str = ""
) -> tuple[Condition, ...]:
    """Return what to report about the cluster's own credential: its validity and use, or why another was refused."""
    if refusal is not None:
        return kind.report([CredentialStatus(False, refusal.reason, refusal.message)])
    if held is None or not held.message:
        return ()
    message = held.message + format_issued(held.credential_id) + format_used(used)
    return kind.report([CredentialStatus(True, "", message)])


def says_lease_expired(cluster: Object) -> bool:
    """Whether the hub has written that the lease was not renewed in time."""
    said = find_condition(cluster, ConditionType.AVAILABLE)
    return said is not None and (said.status, said.reason) == ("Unknown", LEASE_EXPIRED_REASON)


def _clock_is_off(cluster: Object) -> bool:
    condition = find_condition(cluster, ConditionType.CLOCK_SYNCED)
    return condition is not None and condition.status == "False"
