"""The agent renews its lease with what the hub lets it do: patch it, or only replace it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import pytest
from tests.helpers.leases import a_lease
from tests.helpers.server_decision import grant

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import CLUSTER_LEASE, ConditionType
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.kube.errors import Conflict
from watchword.registration.agent.cluster_status import LeaseRenewalReconciler
from watchword.registration.agent.hub_connection import HubConnection
from watchword.runtime.reconcile import RetryAfter
from watchword.testing.builders import a_cluster
from watchword.testing.plane import Plane

PATCHING = ["get", "list", "watch", "update", "patch"]
REPLACING = ["get", "list", "watch", "update"]  # what OCM's hub grants
ACCEPTED_AND_JOINED = (ConditionType.HUB_ACCEPTED, ConditionType.JOINED)


@dataclass
class OneCluster:
    """A reader that knows one cluster with these conditions."""

    name: str
    conditions: Sequence[str]

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        said = [{"type": type_, "status": "True"} for type_ in self.conditions]
        known = resource is MANAGED_CLUSTERS and key.name == self.name
        return {**a_cluster(self.name, accepted=True), "status": {"conditions": said}} if known else None

    def list(self, resource: Resource, *, namespace: str = "", labels: str = "") -> Sequence[Object]:
        del resource, namespace, labels
        return ()

    def by_index(self, resource: Resource, index: str, value: str) -> Sequence[Object]:
        del resource, index, value
        return ()


@dataclass
class Renewal:
    """An agent with just these rights, and its lease."""

    plane: Plane
    name: str
    reconciler: LeaseRenewalReconciler

    async def renew(self) -> str:
        """Renew now, whatever was renewed before; returns the lease."""
        self.reconciler.due.clear()
        await self.reconciler.reconcile(ObjectKey.cluster(self.name))
        return str((await self.lease())["spec"]["renewTime"])

    async def lease(self) -> Object:
        return await self.plane.client().get(LEASES, ObjectKey(self.name, CLUSTER_LEASE))


async def an_agent(plane: Plane, verbs: list[str], *, has_joined: bool = True) -> Renewal:
    name, admin = await plane.namespace("edge"), plane.client()
    key, user = ObjectKey(name, "lease-keeper"), f"agent-of-{name}"
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}]
    await grant(admin, key, rules, user)
    await admin.create(LEASES, a_lease(namespace=name, holder="the hub"))
    connection, hub = HubConnection(), plane.client(user)
    await connection.use(hub.transport, own=True)
    cluster = OneCluster(name, ACCEPTED_AND_JOINED[: 2 if has_joined else 1])
    reconciler = LeaseRenewalReconciler(cluster, hub, plane.clock, Random(1), connection)
    return Renewal(plane, name, reconciler)


@pytest.mark.parametrize("verbs", [PATCHING, REPLACING], ids=["may patch", "may only replace"])
async def test_a_lease_is_renewed_again_and_again(plane: Plane, verbs: list[str]) -> None:
    agent = await an_agent(plane, verbs)

    times = [await agent.renew() for _ in range(3)]

    assert times == sorted(times)
    assert (await agent.lease())["spec"]["holderIdentity"] == "the hub"


async def test_lease_written_by_another_client_is_renewed_at_the_second_attempt(plane: Plane) -> None:
    agent = await an_agent(plane, REPLACING)
    await agent.renew()
    await plane.client().patch(LEASES, ObjectKey(agent.name, CLUSTER_LEASE), {"spec": {"holderIdentity": "another"}})

    with pytest.raises(Conflict):
        await agent.renew()

    assert await agent.renew()
    assert (await agent.lease())["spec"]["holderIdentity"] == "another"


async def test_first_renewal_of_a_cluster_that_joins_is_due_after_a_period(plane: Plane) -> None:
    agent = await an_agent(plane, PATCHING, has_joined=False)
    key = ObjectKey.cluster(agent.name)

    outcome = await agent.reconciler.reconcile(key)

    assert isinstance(outcome, RetryAfter)
    assert timedelta(seconds=45) <= outcome.delay <= timedelta(seconds=60)
    assert "renewTime" not in (await agent.lease())["spec"]
    await asyncio.sleep(outcome.delay.total_seconds())
    await agent.reconciler.reconcile(key)
    assert (await agent.lease())["spec"]["renewTime"]
