"""The removal of a cluster whose agent is gone, on a hub that restarts more often than its patience ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, is_deleting
from watchword.api.names import CLUSTER_LEASE, ConditionType, Finalizer, Label
from watchword.api.resources import LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS, NAMESPACES
from watchword.api.time import rfc3339_micro
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually, is_gone

LEASE_SECONDS = 1  # the hub waits for five of them
RESTART_SECONDS = 2


async def is_removed_by_restarting_hubs(fleet: FleetHarness, key: ObjectKey) -> bool:
    """Run one hub after the other, each for less than the patience, until the cluster is gone."""
    for _ in range(20):
        hub = fleet.start_hub(AUTOMATIC)
        await asyncio.sleep(RESTART_SECONDS)
        await fleet.stop(hub)
        if is_gone(await fleet.client.find(MANAGED_CLUSTERS, key)):
            return True
    return False


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

    assert await is_removed_by_restarting_hubs(fleet, key)


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
