"""Every lease that a hub makes can be read by Open Cluster Management's controllers: it carries a renewTime."""

from __future__ import annotations

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import CLUSTER_LEASE, ConditionType
from watchword.api.resources import LEASES, MANAGED_CLUSTERS
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually
from watchword.testing.fleet import FleetHarness


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
