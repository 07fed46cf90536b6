"""What an agent does over gRPC, with a client that is not ours."""

from __future__ import annotations

import orjson
import pytest
from tests.drivers.grpc.grpc_hub import CLUSTER, LEASE, GrpcHub, next_event

pytestmark = pytest.mark.real_time


async def test_agent_renews_its_lease(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    lease = await hub.lease(name)
    lease["spec"]["holderIdentity"] = "agent-1"

    await hub.agent(name).publish(f"{LEASE}.spec.update_request", lease)

    assert (await hub.lease(name))["spec"]["holderIdentity"] == "agent-1"


async def test_agent_receives_its_cluster_by_resync_and_every_change(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)

    async with agent.subscribed(CLUSTER) as call:
        await agent.resync(CLUSTER)
        event = await next_event(call)

        assert event.type == f"{CLUSTER}.spec.resync_response"
        assert event.source == "kube"
        assert event.attributes["ce-clustername"].ce_string == name
        cluster = orjson.loads(event.binary_data)
        assert cluster["metadata"]["name"] == name
        assert event.attributes["ce-resourceid"].ce_string == cluster["metadata"]["uid"]
        assert event.attributes["ce-resourceversion"].ce_string == cluster["metadata"]["resourceVersion"]
