"""A cluster whose objects would have names that are taken gets its rights once the names are free."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers.fleet import FleetHarness

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType, cluster_role
from watchword.api.resources import CLUSTER_ROLES, MANAGED_CLUSTERS
from watchword.registration.hub.cluster_acceptance import HINDERED_RECHECK
from watchword.testing.builders import a_cluster

pytestmark = pytest.mark.planes("embedded")  # minutes of virtual time


async def test_cluster_is_accepted_once_its_names_are_free(fleet: FleetHarness) -> None:
    fleet.start_hub()
    name, client = fleet.name(), fleet.client
    taken = ObjectKey.cluster(cluster_role(name))
    await client.create(CLUSTER_ROLES, CLUSTER_ROLES.manifest(taken, rules=[]))
    await client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "NameConflict")

    await client.delete(CLUSTER_ROLES, taken)
    await asyncio.sleep(HINDERED_RECHECK.total_seconds())

    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "True")
