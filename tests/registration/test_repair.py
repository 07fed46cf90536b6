"""The hub recreates deleted objects of a cluster."""

from __future__ import annotations

import pytest

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import ConditionType, cluster_role, registration_binding, work_binding
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, ROLE_BINDINGS
from watchword.testing.eventually import eventually
from watchword.testing.fleet import AUTOMATIC, FleetHarness


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
