"""An agent that reports before it renews its lease draws no writes of the hub against it."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers.fleet import FleetHarness

from watchword.api.conditions import Condition, is_true
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.runtime.status import StatusWriter
from watchword.testing.builders import a_cluster

pytestmark = pytest.mark.planes("embedded")  # virtual time

PATIENCE = 300  # seconds: five renewals of a minute
WELL = Condition.true(ConditionType.AVAILABLE, "ManagedClusterAvailable", "Managed cluster is available")


async def test_agent_that_reports_before_it_renews_its_lease_is_not_contradicted(fleet: FleetHarness) -> None:
    fleet.start_hub()
    name, client = fleet.name(), fleet.client
    key, status = ObjectKey.cluster(name), StatusWriter(client, fleet.plane.clock)
    await client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "True")
    await status.set_condition(MANAGED_CLUSTERS, await client.get(MANAGED_CLUSTERS, key), WELL)
    await asyncio.sleep(PATIENCE)
    silent = await fleet.condition(name, ConditionType.AVAILABLE, "Unknown")

    await status.set_condition(MANAGED_CLUSTERS, silent, WELL)
    await asyncio.sleep(60)

    assert is_true(await client.get(MANAGED_CLUSTERS, key), ConditionType.AVAILABLE)
    await asyncio.sleep(PATIENCE)
    await fleet.condition(name, ConditionType.AVAILABLE, "Unknown")  # it has still not renewed its lease
