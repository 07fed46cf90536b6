"""Renews the lease of this cluster on the hub."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.api.time import rfc3339_micro
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.registration.agent.hub_session import HubConnection
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

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
        if due is not None and now < due <= now + cluster.lease_duration:
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
