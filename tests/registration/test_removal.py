"""The removal of a cluster whose agent is gone, on a hub that restarts more often than its patience ends."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from random import Random

import pytest
from tests.helpers.fault_injection import FaultPlan, FaultyTransport, WatchFaults
from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.api.conditions import is_true
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.names import CLUSTER_LEASE, ConditionType, Finalizer, Label
from watchword.api.resources import LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS, NAMESPACES, ROLE_BINDINGS
from watchword.api.time import rfc3339_micro
from watchword.kube.transport import Transport
from watchword.registration.hub.cluster_rbac import binding_keys
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually, is_gone

LEASE_SECONDS = 1  # the hub waits for five of them
RESTART_SECONDS = 2
WEEK_SECONDS = 604800


async def removed_by_restarting_hubs(fleet: FleetHarness, key: ObjectKey) -> None:
    """Run one hub after the other, each for less than the patience, until the cluster is gone."""
    async with asyncio.timeout(300):
        while not is_gone(await fleet.client.find(MANAGED_CLUSTERS, key)):
            hub = fleet.start_hub(AUTOMATIC)
            await asyncio.sleep(RESTART_SECONDS)
            await fleet.stop(hub)


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(None, id="its lease has no renewal"),
        pytest.param(timedelta(days=1), id="its clock was a day ahead"),
    ],
)
async def test_deleted_cluster_is_removed_although_the_hub_restarts_often(
    fleet: FleetHarness, ahead: timedelta | None
) -> None:
    key = ObjectKey.cluster(fleet.name())
    hub, agent = fleet.start_hub(AUTOMATIC), fleet.start_agent(key.name)
    await fleet.joined(key.name)
    await fleet.stop(agent, hub)
    metadata = {"finalizers": [Finalizer.MANIFEST_WORK]}
    work = MANIFEST_WORKS.manifest(ObjectKey(key.name, "held"), metadata=metadata, spec={"workload": {"manifests": []}})
    await fleet.client.create(MANIFEST_WORKS, work)
    renewal = None if ahead is None else rfc3339_micro(fleet.plane.clock.now() + ahead)
    lease: Object = {"spec": {"renewTime": renewal}}
    await fleet.client.patch(LEASES, ObjectKey(key.name, CLUSTER_LEASE), lease)
    await fleet.client.patch(MANAGED_CLUSTERS, key, {"spec": {"leaseDurationSeconds": LEASE_SECONDS}})
    await fleet.client.delete(MANAGED_CLUSTERS, key)

    await removed_by_restarting_hubs(fleet, key)


async def test_deleted_cluster_is_removed_although_its_agent_has_no_rights_to_finish(fleet: FleetHarness) -> None:
    key = ObjectKey.cluster(fleet.name())
    hub, agent = fleet.start_hub(AUTOMATIC), fleet.start_agent(key.name)
    await fleet.joined(key.name)
    await fleet.client.patch(MANAGED_CLUSTERS, key, {"spec": {"leaseDurationSeconds": WEEK_SECONDS}})
    await fleet.stop(agent, hub)
    metadata = {"finalizers": [Finalizer.MANIFEST_WORK]}
    work = MANIFEST_WORKS.manifest(ObjectKey(key.name, "held"), metadata=metadata, spec={"workload": {"manifests": []}})
    await fleet.client.create(MANIFEST_WORKS, work)
    await fleet.client.delete(MANAGED_CLUSTERS, key)
    for binding in binding_keys(key.name):  # as a hub restored from a backup of a removal lacks them
        await fleet.client.patch(ROLE_BINDINGS, binding, {"metadata": {"finalizers": None}})
        await fleet.client.delete(ROLE_BINDINGS, binding)

    fleet.start_hub(AUTOMATIC)

    await eventually(fleet.client, MANAGED_CLUSTERS, key, is_gone)


class WorksBehind:
    """A transport whose watches of ManifestWorks can fall behind; everything else passes."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.works = FaultyTransport(inner, FaultPlan(), Random(1))

    def _choose(self, request: Request) -> Transport:
        return self.works if "/manifestworks" in request.path else self._inner

    async def send(self, request: Request) -> Response:
        return await self._choose(request).send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._choose(request).stream(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.planes("embedded")  # it waits for minutes, which are virtual there
async def test_cluster_is_not_released_before_works_that_the_cache_lacks(fleet: FleetHarness) -> None:
    behind: list[WorksBehind] = []

    def wrap(inner: Transport) -> WorksBehind:
        behind.append(WorksBehind(inner))
        return behind[-1]

    fleet.through = wrap
    fleet.start_hub(AUTOMATIC)
    key = ObjectKey.cluster(fleet.name())
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(key.name, accepted=True))
    await eventually(fleet.client, MANAGED_CLUSTERS, key, is_accepted_by_hub)
    for each in behind:
        each.works.plan = FaultPlan(watch=WatchFaults(stall=1.0))
    held = ObjectKey(key.name, "held")
    metadata = {"finalizers": [Finalizer.MANIFEST_WORK]}
    work = MANIFEST_WORKS.manifest(held, metadata=metadata, spec={"workload": {"manifests": []}})
    await fleet.client.create(MANIFEST_WORKS, work)

    await fleet.client.delete(MANAGED_CLUSTERS, key)

    await fleet.condition(key.name, ConditionType.DELETING, "True", "ResourceRemaining")
    await eventually(fleet.client, MANAGED_CLUSTERS, key, is_gone, within=3600)
    assert await fleet.client.find(MANIFEST_WORKS, held) is None


@pytest.mark.planes("embedded")  # it waits for minutes, which are virtual there
async def test_cluster_is_accepted_although_an_earlier_one_left_works_that_no_agent_removes(
    fleet: FleetHarness,
) -> None:
    key = ObjectKey.cluster(fleet.name())
    labels = {Label.CLUSTER_NAME: key.name}
    await fleet.client.create(NAMESPACES, NAMESPACES.manifest(key, metadata={"labels": labels}))
    metadata = {"finalizers": [Finalizer.MANIFEST_WORK]}
    work = MANIFEST_WORKS.manifest(ObjectKey(key.name, "held"), metadata=metadata, spec={"workload": {"manifests": []}})
    await fleet.client.create(MANIFEST_WORKS, work)
    await fleet.client.delete(NAMESPACES, key)

    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(key.name, accepted=True))
    fleet.start_hub(AUTOMATIC)

    await eventually(fleet.client, MANAGED_CLUSTERS, key, is_accepted_by_hub, within=3600)
    assert not is_deleting(await fleet.client.get(NAMESPACES, key))


def is_accepted_by_hub(cluster: Object | None) -> bool:
    return cluster is not None and is_true(cluster, ConditionType.HUB_ACCEPTED)
