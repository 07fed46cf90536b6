"""The lease of a cluster: complete from the start, cheap to renew, and watched closely enough."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import CLUSTER_LEASE, ConditionType
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.api.time import rfc3339_micro
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually


def is_renewed(lease: Object | None) -> bool:
    return bool(((lease or {}).get("spec") or {}).get("renewTime"))


@pytest.mark.parametrize("made_before", [False, True], ids=["new", "made by an earlier version"])
async def test_a_lease_has_a_renewal_before_its_agent_comes(fleet: FleetHarness, *, made_before: bool) -> None:
    name = fleet.name()
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    hub = fleet.start_hub()
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "True")
    key = ObjectKey(name, CLUSTER_LEASE)
    if made_before:
        await fleet.stop(hub)
        await fleet.client.patch(LEASES, key, {"spec": {"renewTime": None}})
        fleet.start_hub()

    await eventually(fleet.client, LEASES, key, is_renewed)


async def start_steady_cluster(fleet: FleetHarness) -> tuple[str, asyncio.Task[None]]:
    """Let a cluster join and renew its lease for ten minutes; return its name and its agent."""
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    agent = fleet.start_agent(name)
    await fleet.joined(name)
    await asyncio.sleep(600)
    return name, agent


@pytest.mark.planes("embedded")
async def test_renewals_of_a_lease_do_not_reconcile_its_cluster(fleet: FleetHarness) -> None:
    await start_steady_cluster(fleet)
    before = fleet.reconciles("cluster-lease")

    await asyncio.sleep(3600)

    assert fleet.reconciles("cluster-lease") - before <= 16  # four minutes and more apart; more than sixty renewals


@pytest.mark.planes("embedded")
async def test_silence_after_many_renewals_is_noticed_within_five_periods(fleet: FleetHarness) -> None:
    name, agent = await start_steady_cluster(fleet)
    await fleet.stop(agent)

    await asyncio.sleep(5 * 60)

    await fleet.condition(name, ConditionType.AVAILABLE, "Unknown")


@pytest.mark.planes("embedded")
async def test_clock_that_is_wrong_after_many_renewals_is_reported(fleet: FleetHarness) -> None:
    name, agent = await start_steady_cluster(fleet)
    await fleet.condition(name, ConditionType.CLOCK_SYNCED, "True")
    await fleet.stop(agent)
    ahead = rfc3339_micro(fleet.plane.clock.now() + timedelta(hours=1))

    await fleet.client.patch(LEASES, ObjectKey(name, CLUSTER_LEASE), {"spec": {"renewTime": ahead}})

    await fleet.condition(name, ConditionType.CLOCK_SYNCED, "False")


@pytest.mark.planes("embedded")
async def test_deleted_lease_of_a_cluster_that_renews_it_is_created_again(fleet: FleetHarness) -> None:
    name, _ = await start_steady_cluster(fleet)
    key = ObjectKey(name, CLUSTER_LEASE)

    await fleet.client.delete(LEASES, key)

    await eventually(fleet.client, LEASES, key, is_renewed)
