"""Hub and agent both write whether a cluster is available: one at a time, by rule."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import ObjectKey
from watchword.api.names import COMMON_REGISTRATION_ROLE, LEASE_EXPIRED_REASON, ConditionType
from watchword.api.resources import CLUSTER_ROLES, MANAGED_CLUSTERS
from watchword.registration.hub.cluster_rbac import COMMON_ROLES
from watchword.testing.eventually import eventually

AVAILABLE = ConditionType.AVAILABLE
LEASE_SECONDS = 1  # the hub waits for five of them


async def allow_leases(fleet: FleetHarness, *, allowed: bool) -> None:
    rules = [rule for rule in COMMON_ROLES[COMMON_REGISTRATION_ROLE] if allowed or "leases" not in rule["resources"]]
    await fleet.client.patch(CLUSTER_ROLES, ObjectKey.cluster(COMMON_REGISTRATION_ROLE), {"rules": rules})


@pytest.mark.planes("embedded")  # the agent's backoff takes a minute of real time
async def test_agent_that_cannot_renew_its_lease_leaves_the_condition_to_the_hub(fleet: FleetHarness) -> None:
    key = ObjectKey.cluster(fleet.name())
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(key.name)
    await fleet.joined(key.name)
    await fleet.client.patch(MANAGED_CLUSTERS, key, {"spec": {"leaseDurationSeconds": LEASE_SECONDS}})
    await allow_leases(fleet, allowed=False)

    await fleet.condition(key.name, AVAILABLE, "Unknown", LEASE_EXPIRED_REASON)
    await asyncio.sleep(2 * LEASE_SECONDS)  # the hub taints the cluster, once
    silent = await fleet.client.get(MANAGED_CLUSTERS, key)
    await asyncio.sleep(10 * LEASE_SECONDS)
    later = await fleet.client.get(MANAGED_CLUSTERS, key)
    await allow_leases(fleet, allowed=True)

    await eventually(fleet.client, MANAGED_CLUSTERS, key, lambda obj: is_true(obj or {}, AVAILABLE), within=300)
    assert (find_condition(silent, AVAILABLE) or Condition.true(AVAILABLE, "")).status == "Unknown"
    assert later["metadata"]["resourceVersion"] == silent["metadata"]["resourceVersion"]
