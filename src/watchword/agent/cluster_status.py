"""Reports this cluster's state on the hub: joined, available, version, size, claims."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from watchword.agent.api_server_health import ApiServerHealthCheck, ClusterHealth
from watchword.agent.cluster_facts import ClaimPolicy, choose_claims, cluster_status_fields
from watchword.agent.cluster_lease import LeaseRenewalReconciler
from watchword.agent.hub_session import HubSession
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.credential_use import format_issued, format_used
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import LEASE_EXPIRED_REASON, ConditionType
from watchword.api.resources import CLUSTER_CLAIMS, MANAGED_CLUSTERS, NODES
from watchword.drivers.descriptor import CredentialKind, CredentialStatus
from watchword.drivers.interface import NewCredential, Pending, ValidCredential
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

LEASE_RECHECK = timedelta(seconds=1)


class ClusterStatusReconciler(Struct, frozen=True):
    """Reconciles this cluster's own ManagedCluster on the hub; triggered by it, by nodes and by claims."""

    hub: Reader
    cluster: Reader
    status: StatusWriter
    health: ApiServerHealthCheck
    policy: ClaimPolicy
    session: HubSession  # as a joining cluster the agent may not report anything
    credential: CredentialKind  # how the cluster's own is reported
    lease: LeaseRenewalReconciler

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write the status in one patch, when anything in it differs."""
        found = self.hub.get(MANAGED_CLUSTERS, key)
        if found is None or not is_true(found, ConditionType.HUB_ACCEPTED) or not self.session.uses_own_credential:
            return Done()
        if _clock_is_off(
            found
        ):  # conditions of an agent with a wrong clock would be misleading; the lease is still renewed
            return RetryAfter(Cluster.read(found).lease_duration)
        if says_lease_expired(found) and not self.lease.is_renewed(key):
            return RetryAfter(LEASE_RECHECK)  # the hub is the one writer of this condition until the lease is renewed
        health = await self.health.check()
        claims = choose_claims(self.cluster.list(CLUSTER_CLAIMS), self.policy)
        facts = cluster_status_fields(health.version, self.cluster.list(NODES), claims) if health.version else {}
        session = self.session
        reported = decide_credential_conditions(
            self.credential, session.held, session.refusal, used=session.used_credential_id
        )
        change = StatusChange(conditions=(*decide_cluster_conditions(health), *reported), fields=facts)
        await self.status.write(MANAGED_CLUSTERS, found, change)
        return RetryAfter(Cluster.read(found).lease_duration)


def decide_cluster_conditions(health: ClusterHealth) -> tuple[Condition, ...]:
    """Return the conditions that the agent itself can decide."""
    joined = Condition.true(ConditionType.JOINED, "ManagedClusterJoined", "the cluster has joined this hub")
    if health.trouble:
        message = f"the cluster's API server is not well: {health.trouble}"
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
