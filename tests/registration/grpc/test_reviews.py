"""How many reviews of rights the server requests, and what it remembers of them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from random import Random

import pytest
from grpclib.const import Status
from tests.helpers.fault_injection import FaultPlan, FaultyTransport
from tests.registration.grpc.grpc_hub import GrpcHub, refusal

from watchword.api.http import Request, Response
from watchword.api.names import agent_user
from watchword.kube.access_reviews import UserIdentity
from watchword.kube.client import Client
from watchword.kube.errors import MalformedResponse
from watchword.kube.transport import Transport
from watchword.registration.grpc.cloud_events import Action, DataType, EventType, SubResource
from watchword.registration.grpc.errors import RequestRefused
from watchword.registration.grpc.server.authorization import Authorizer, Caller, choose_access
from watchword.registration.grpc.server.process import grpc_error
from watchword.runtime.cache import Cache
from watchword.testing.plane import Plane

REQUEST_CERTIFICATE = EventType(DataType.CERTIFICATE_REQUEST, SubResource.SPEC, Action.CREATE)
SUBSCRIBE = EventType(DataType.MANAGED_CLUSTER, SubResource.SPEC, Action.WATCH)
ADMINISTRATOR = Caller(UserIdentity("admin", groups=("system:masters",)))


@dataclass
class CountingTransport:
    """Counts requests."""

    transport: Transport
    sent: int = 0

    async def send(self, request: Request) -> Response:
        self.sent += 1
        return await self.transport.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.transport.stream(request)

    async def close(self) -> None:
        await self.transport.close()


def counted(plane: Plane) -> tuple[Authorizer, CountingTransport]:
    counting = CountingTransport(plane.client().transport)
    client = Client(counting)
    return Authorizer(client, Cache.of(client)), counting


async def test_right_that_names_no_cluster_is_reviewed_once_for_all_joins(plane: Plane) -> None:
    authorizer, counting = counted(plane)

    for cluster in ("edge-1", "edge-2", "edge-3"):
        await authorizer.authorize(ADMINISTRATOR, cluster, choose_access(REQUEST_CERTIFICATE, cluster))

    assert counting.sent == 1


async def test_right_to_one_cluster_is_reviewed_for_each_and_forgotten_for_one(plane: Plane) -> None:
    authorizer, counting = counted(plane)
    clusters = ("edge-1", "edge-2")

    for _ in range(2):
        for cluster in clusters:
            await authorizer.authorize(ADMINISTRATOR, cluster, choose_access(SUBSCRIBE, cluster))
    reviewed = counting.sent
    authorizer.forget("edge-1")
    for cluster in clusters:
        await authorizer.authorize(ADMINISTRATOR, cluster, choose_access(SUBSCRIBE, cluster))

    assert (reviewed, counting.sent) == (2, 3)


async def test_answer_for_one_user_is_not_used_for_another(plane: Plane) -> None:
    authorizer, _ = counted(plane)
    access = choose_access(REQUEST_CERTIFICATE, "edge-1")
    await authorizer.authorize(ADMINISTRATOR, "edge-1", access)

    with pytest.raises(RequestRefused, match="cannot create certificatesigningrequests"):
        await authorizer.authorize(Caller(UserIdentity(agent_user("edge-1", "a"))), "edge-1", access)


@pytest.mark.parametrize("data_type", [DataType.MANAGED_CLUSTER, DataType.LEASE, DataType.MANIFEST_BUNDLE])
def test_resync_needs_the_right_of_the_subscription_that_receives_its_answer(data_type: DataType) -> None:
    resync, watch = (
        choose_access(EventType(data_type, SubResource.SPEC, action), "edge-1")
        for action in (Action.RESYNC_REQUEST, Action.WATCH)
    )

    assert resync == watch


def test_agent_tries_again_when_the_api_server_answers_what_cannot_be_read() -> None:
    assert grpc_error(MalformedResponse("not JSON")).status is Status.UNAVAILABLE


@pytest.mark.real_time
async def test_agent_alone_repeats_what_the_api_server_does_not_answer(hub: GrpcHub) -> None:
    roads: list[FaultyTransport] = []

    def through(transport: Transport) -> Transport:
        roads.append(FaultyTransport(transport, FaultPlan(), Random(1)))
        return roads[0]

    await hub.start(through=through)
    name = await hub.accepted()
    roads[0].plan = FaultPlan(refuse=1.0)

    code, _ = await refusal(hub.agent(name).resync(DataType.LEASE))

    assert (code, roads[0].injected.total()) == ("UNAVAILABLE", 1)
