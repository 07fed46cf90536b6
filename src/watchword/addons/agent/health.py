"""Reports the health of an add-on's agent to the hub, by the lease it renews on this cluster."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from watchword.addons.agent.credentials import WatchNamespace
from watchword.api.addon import Addon
from watchword.api.conditions import Condition
from watchword.api.credential_report import format_used
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import LEASES, MANAGED_CLUSTER_ADDONS
from watchword.api.time import parse_rfc3339
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusWriter

RENEWALS_MISSED = 5  # are tolerated, each as long as the lease says
SHORTEST_LEASE, LONGEST_LEASE = 60, 24 * 3600  # seconds


class AddonHealthReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn on the hub; triggered by it and by the lease of its name on this cluster."""

    hub: Reader
    cluster: Reader
    status: StatusWriter
    clock: Clock
    namespace: str
    watch_namespace: WatchNamespace

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.get(MANAGED_CLUSTER_ADDONS, key)
        if found is None:
            return Done()
        addon = Addon.read(found)
        if not addon.healthy_by_lease or addon.deleting:
            return Done()
        namespace = addon.namespace_on_cluster(self.namespace)
        await self.watch_namespace(namespace)
        lease = self.cluster.get(LEASES, ObjectKey(namespace, addon.name))
        decision = decide_addon_health(addon.name, lease, now=self.clock.now())
        await self.status.set_condition(MANAGED_CLUSTER_ADDONS, found, decision.condition)
        return Done() if decision.recheck_in is None else RetryAfter(decision.recheck_in)


class AddonHealthDecision(Struct, frozen=True):
    """What follows from a lease, and when that may change without a write."""

    condition: Condition
    recheck_in: timedelta | None = None


def decide_addon_health(addon: str, lease: Object | None, *, now: datetime) -> AddonHealthDecision:
    available = ConditionType.ADDON_AVAILABLE
    renewed = parse_rfc3339(str(((lease or {}).get("spec") or {}).get("renewTime") or ""))
    if lease is None or renewed is None:
        message = f"the agent of add-on {addon} has no lease on the managed cluster"
        return AddonHealthDecision(Condition.unknown(available, "ManagedClusterAddOnLeaseNotFound", message))
    said = lease["spec"].get("leaseDurationSeconds")
    seconds = min(max(said, SHORTEST_LEASE), LONGEST_LEASE) if isinstance(said, int) else SHORTEST_LEASE
    left = renewed + RENEWALS_MISSED * timedelta(seconds=seconds) - now
    if left > timedelta(0):
        used = annotations_of(lease).get(Annotation.CREDENTIAL_IN_USE, "")
        message = f"the agent of add-on {addon} renews its lease{format_used(used)}"
        return AddonHealthDecision(Condition.true(available, "ManagedClusterAddOnLeaseUpdated", message), left)
    message = f"the agent of add-on {addon} stopped renewing its lease"
    return AddonHealthDecision(Condition.false(available, "ManagedClusterAddOnLeaseUpdateStopped", message))
