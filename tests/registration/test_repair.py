"""Hub and agent recreate deleted objects of a cluster, and put forged conditions right."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.api.conditions import conditions_of, find_condition
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import ConditionType, cluster_role, registration_binding, work_binding
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, MANAGED_CLUSTERS, ROLE_BINDINGS
from watchword.testing.eventually import eventually

AT_ONCE = 5.0  # seconds, before the agent's next report


@pytest.mark.parametrize("what", ["role", "role-binding", "registration", "work", "lease"])
async def test_deleted_object_is_recreated(fleet: FleetHarness, what: str) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    resource, key = {
        "role": (CLUSTER_ROLES, ObjectKey.cluster(cluster_role(name))),
        "role-binding": (CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(cluster_role(name))),
        "registration": (ROLE_BINDINGS, ObjectKey(name, registration_binding(name))),
        "work": (ROLE_BINDINGS, ObjectKey(name, work_binding(name))),
        "lease": (LEASES, ObjectKey(name, "managed-cluster-lease")),
    }[what]
    gone = uid_of(await fleet.client.get(resource, key))

    await fleet.client.delete(resource, key)

    def is_another(obj: Object | None) -> bool:
        return obj is not None and uid_of(obj) != gone

    await eventually(fleet.client, resource, key, is_another)
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "True")


@pytest.mark.parametrize("forged", [ConditionType.HUB_ACCEPTED, ConditionType.JOINED, ConditionType.AVAILABLE])
async def test_forged_message_of_a_condition_is_put_right(fleet: FleetHarness, forged: str) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    await asyncio.sleep(AT_ONCE)  # other writes of the agent, which follow at once, would put it right as well
    found = await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    said = find_condition(found, forged)
    rows = [{**row, "message": "forged"} if row["type"] == forged else row for row in conditions_of(found)]

    await fleet.client.patch(
        MANAGED_CLUSTERS, ObjectKey.cluster(name), {"status": {"conditions": rows}}, subresource="status"
    )

    def is_put_right(obj: Object | None) -> bool:
        return find_condition(obj or {}, forged) == said

    await eventually(fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), is_put_right, within=AT_ONCE)
