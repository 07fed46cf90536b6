from __future__ import annotations

import asyncio
from datetime import timedelta

import orjson
import pytest

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.resources import SECRETS
from watchword.kube.client import Client, PatchType
from watchword.runtime.errors import NotLeading
from watchword.runtime.metrics import Metrics
from watchword.runtime.write_transports import ControllerTransport, Fence, WriteThroughTransport, conflicting_managers
from watchword.testing.virtual_time import VirtualClock

A = ObjectKey("ns", "a")
STORED = orjson.dumps(SECRETS.manifest(A, metadata={"uid": "u", "resourceVersion": "6"}))


def refusal(*messages: str) -> bytes:
    """Return how a server refuses an apply."""
    causes = [{"reason": "FieldManagerConflict", "message": message, "field": ".data.a"} for message in messages]
    return orjson.dumps({"kind": "Status", "code": 409, "details": {"causes": causes}})


class SlowServer:
    """A server that takes its time and remembers what reached it."""

    def __init__(self, *, seconds: float = 0) -> None:
        self.seconds = seconds
        self.finished: list[str] = []

    async def handle(self, request: Request) -> Response:
        await asyncio.sleep(self.seconds)
        self.finished.append(request.method)
        return Response(200, body=STORED)


@pytest.fixture
async def clock() -> VirtualClock:
    return VirtualClock(asyncio.get_running_loop())


@pytest.fixture
def fence(clock: VirtualClock) -> Fence:
    return Fence(clock, is_open=False)


def extend(fence: Fence, clock: VirtualClock, seconds: float) -> None:
    fence.extend(seconds, since=asyncio.get_running_loop().time(), wall_since=clock.now())


def fenced(server: SlowServer, fence: Fence) -> Client:
    client = Client.from_handler(server.handle)
    return client.over(ControllerTransport(client.transport, lambda _: None, fence, Metrics()))


async def test_without_leadership_reads_pass_and_writes_do_not(fence: Fence) -> None:
    server = SlowServer()
    client = fenced(server, fence)

    await client.get(SECRETS, A)
    with pytest.raises(NotLeading):
        await client.patch(SECRETS, A, {})

    assert server.finished == ["GET"]


async def test_writes_end_with_the_time_that_was_won(fence: Fence, clock: VirtualClock) -> None:
    client = fenced(SlowServer(), fence)
    extend(fence, clock, 10)
    await client.patch(SECRETS, A, {})

    await asyncio.sleep(10)

    with pytest.raises(NotLeading):
        await client.patch(SECRETS, A, {})


async def test_suspended_leader_does_not_write_before_it_renewed_the_lease(fence: Fence, clock: VirtualClock) -> None:
    extend(fence, clock, 10)

    clock.skew = timedelta(hours=1)  # the wall clock went on while the loop's time stood still

    assert not fence.is_open


async def test_a_clock_set_back_wins_no_time(fence: Fence, clock: VirtualClock) -> None:
    extend(fence, clock, 10)
    clock.skew = timedelta(hours=-1)

    await asyncio.sleep(10)

    assert not fence.is_open


async def test_a_write_under_way_is_cut_when_the_time_ends(fence: Fence, clock: VirtualClock) -> None:
    server = SlowServer(seconds=20)
    extend(fence, clock, 10)

    with pytest.raises(NotLeading):
        await fenced(server, fence).patch(SECRETS, A, {})

    assert server.finished == []


async def test_a_write_under_way_goes_on_when_the_time_is_extended(fence: Fence, clock: VirtualClock) -> None:
    server = SlowServer(seconds=15)
    extend(fence, clock, 10)
    asyncio.get_running_loop().call_later(5, extend, fence, clock, 20)

    await fenced(server, fence).patch(SECRETS, A, {})

    assert server.finished == ["PATCH"]


async def test_closing_the_fence_cuts_a_write_at_once(fence: Fence, clock: VirtualClock) -> None:
    extend(fence, clock, 10)
    asyncio.get_running_loop().call_later(1, fence.close)

    with pytest.raises(NotLeading):
        await fenced(SlowServer(seconds=5), fence).patch(SECRETS, A, {})

    assert asyncio.get_running_loop().time() == 1


async def test_only_responses_to_writes_are_cached() -> None:
    folded: list[bytes] = []
    client = Client.from_handler(SlowServer().handle)
    client = client.over(WriteThroughTransport(client.transport, folded.append))

    await client.get(SECRETS, A)
    await client.patch(SECRETS, A, {}, kind=PatchType.MERGE, dry_run=True)
    await client.delete(SECRETS, A)
    assert folded == []

    await client.patch(SECRETS, A, {})

    assert folded == [STORED]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"[]", [], id="not a Status"),
        pytest.param(b'{"details": {"causes": "none"}}', [], id="not causes"),
        pytest.param(
            b'{"reason": "Conflict", "message": "the object has been modified"}', [], id="another writer was faster"
        ),
        pytest.param(refusal('conflict with "kubectl"', 'conflict with "kubectl" using v1'), ["kubectl"], id="one"),
        pytest.param(
            refusal('conflict with "a" with subresource "status" using v1', 'conflict with "b"'), ["a", "b"], id="two"
        ),
        pytest.param(refusal("conflict with everybody"), [], id="no manager named"),
    ],
)
def test_conflicting_managers(body: bytes, expected: list[str]) -> None:
    assert conflicting_managers(body) == expected
