"""Cluster sets: whether they are empty is known, and costs nothing while clusters join."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers.fleet import FleetHarness

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Label
from watchword.api.resources import MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually


async def create_member(fleet: FleetHarness, cluster_set: str) -> str:
    name = fleet.name()
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True, labels={Label.CLUSTER_SET: cluster_set}))
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "True")
    return name


async def is_reported_empty(fleet: FleetHarness, cluster_set: str, *, empty: bool) -> None:
    def says_so(found: Object | None) -> bool:
        said = find_condition(found or {}, ConditionType.SET_EMPTY)
        return said is not None and (said.status == "True") is empty

    await eventually(fleet.client, MANAGED_CLUSTER_SETS, ObjectKey.cluster(cluster_set), says_so)


@pytest.fixture
async def cluster_set(fleet: FleetHarness) -> str:
    """An empty set on a running hub."""
    fleet.start_hub()
    name = fleet.plane.unique("set")
    await fleet.client.create(MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(name), spec={}))
    await is_reported_empty(fleet, name, empty=True)
    return name


async def test_set_is_empty_again_once_its_last_cluster_left(fleet: FleetHarness, cluster_set: str) -> None:
    first, second = [await create_member(fleet, cluster_set) for _ in range(2)]
    await is_reported_empty(fleet, cluster_set, empty=False)
    await fleet.remove(first)
    await is_reported_empty(fleet, cluster_set, empty=False)

    await fleet.remove(second)

    await is_reported_empty(fleet, cluster_set, empty=True)


@pytest.mark.planes("embedded")
async def test_clusters_that_join_a_set_with_clusters_reconcile_no_set(fleet: FleetHarness, cluster_set: str) -> None:
    await create_member(fleet, cluster_set)
    await is_reported_empty(fleet, cluster_set, empty=False)
    await asyncio.sleep(60)
    before = fleet.reconciles("cluster-sets")

    for _ in range(5):
        await create_member(fleet, cluster_set)
    await asyncio.sleep(60)

    assert fleet.reconciles("cluster-sets") == before
