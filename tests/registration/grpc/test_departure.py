"""A cluster leaves over gRPC: the hub is notified with the cluster's own certificate."""

from __future__ import annotations

import pytest
from tests.registration.grpc.grpc_fleet import GrpcFleet
from tests.registration.grpc.grpc_hub import CLUSTER, GrpcHub

from watchword.admin.unjoin import ExistingMembership, Unjoiner
from watchword.api.meta import ObjectKey, annotations_of
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTERS

pytestmark = pytest.mark.real_time


async def test_unjoin_gives_the_acceptance_back_over_grpc(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()
    elsewhere = grpc_fleet.members.plane.unique("agent")
    membership = ExistingMembership(name, elsewhere, None, await grpc_fleet.secret(name))

    unjoiner = Unjoiner(grpc_fleet.client, grpc_fleet.members.plane.clock, purge_operator=False)
    result = await unjoiner.run(membership)

    denied = await grpc_fleet.members.condition(name, ConditionType.HUB_ACCEPTED, "False")
    assert result.hub_notified
    assert Annotation.LEFT_ON in annotations_of(denied)
    assert denied["spec"]["hubAcceptsClient"] is False


async def test_agent_that_has_not_seen_the_acceptance_does_not_take_it_back(hub: GrpcHub) -> None:
    await hub.start()
    name, key = await hub.accepted(), "hubAcceptsClient"
    agent = hub.agent(name)
    cluster = await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    unversioned = {**cluster, "metadata": {"name": name}, "spec": {**cluster["spec"], key: False}}
    outdated = {**unversioned, "metadata": {"name": name, "resourceVersion": "1"}}

    _, first = await agent.refused(f"{CLUSTER}.spec.update_request", unversioned)
    _, second = await agent.refused(f"{CLUSTER}.spec.update_request", outdated)

    assert (first["reason"], second["reason"]) == ("Forbidden", "Conflict")
    assert (await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)))["spec"][key] is True
