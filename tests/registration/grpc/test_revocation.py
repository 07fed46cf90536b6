"""A denied cluster's streams end because the denial arrives, not because a timer ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from tests.helpers.fleet import FleetHarness

from watchword.api.meta import ObjectKey
from watchword.api.names import agent_user
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.kube.access_reviews import UserIdentity
from watchword.registration.grpc.cloud_events import DataType
from watchword.registration.grpc.errors import RequestRefused
from watchword.registration.grpc.server.authorization import Authorizer, Caller
from watchword.registration.grpc.server.hub_objects import EventStream, EventStreams, HubObjects
from watchword.runtime.cache import Cache
from watchword.testing.builders import a_cluster

A_DAY = timedelta(days=1).total_seconds()
A_SECOND = 1.0


@pytest_asyncio.fixture
async def objects(fleet: FleetHarness) -> AsyncIterator[HubObjects]:
    """The hub's objects as one server follows them; no heartbeats and no reviews run."""
    client = fleet.plane.fresh_client()
    cache = Cache.of(client)
    followed = HubObjects(cache, EventStreams(), Authorizer(client, cache), fleet.plane.clock)
    followed.follow()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(cache.run())
        await cache.sync()
        yield followed
        running.cancel()


async def until_ended(stream: EventStream) -> str:
    """Return with which reason a stream ends; discard what it would send."""
    try:
        while True:
            await stream.wait(A_DAY)
            stream.take()
    except RequestRefused as reason:
        return str(reason)


def a_stream(cluster: str, data_type: DataType) -> EventStream:
    return EventStream(cluster, data_type, Caller(UserIdentity(agent_user(cluster, "agent-1")), cluster), object())


@pytest.mark.planes("embedded")  # its time is virtual: nothing but the order of events decides
async def test_streams_of_a_denied_cluster_end_with_the_watch_event(fleet: FleetHarness, objects: HubObjects) -> None:
    denied, other = fleet.name(), fleet.name()
    for name in (denied, other):
        await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    streams = [a_stream(denied, DataType.LEASE), a_stream(denied, DataType.MANIFEST_BUNDLE)]
    stays = a_stream(other, DataType.LEASE)

    with (
        objects.streams.registered(streams[0]),
        objects.streams.registered(streams[1]),
        objects.streams.registered(stays),
    ):
        ends = [asyncio.create_task(until_ended(stream)) for stream in (*streams, stays)]
        started = asyncio.get_running_loop().time()
        await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(denied), {"spec": {"hubAcceptsClient": False}})
        reasons = await asyncio.gather(*ends[:2])
        passed = asyncio.get_running_loop().time() - started

    assert reasons == [f"cluster {denied} is not accepted by this hub any more"] * 2
    assert not ends[2].done()
    assert passed < A_SECOND
    ends[2].cancel()
