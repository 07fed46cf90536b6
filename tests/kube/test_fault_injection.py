"""Faulty transports: the same seed injects the same faults, and a watch still ends with the true state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.helpers.fault_injection import FaultPlan, FaultyTransport, WatchFaults

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.resources import SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.request_sender import NO_RETRY
from watchword.kube.transport import InProcessTransport
from watchword.kube.watch import ObjectChange, Snapshot, WatchOptions, list_and_watch
from watchword.testing.virtual_time import VirtualLoop


class Store:
    """The smallest server that can be watched: one collection, one history."""

    def __init__(self, *, streams_initial_events: bool) -> None:
        self.streams_initial_events = streams_initial_events
        self.version = 10
        self.objects: dict[str, bytes] = {}
        self.history: list[tuple[int, bytes]] = []
        self.changed = asyncio.Event()

    def write(self, name: str, *, delete: bool) -> None:
        if delete and name not in self.objects:
            return
        self.version += 1
        kind = "DELETED" if delete else "MODIFIED" if name in self.objects else "ADDED"
        obj = orjson.dumps({"kind": "Secret", "metadata": {"name": name, "resourceVersion": str(self.version)}})
        self.objects.pop(name, None)
        if not delete:
            self.objects[name] = obj
        self.history.append((self.version, b'{"type":"%s","object":%s}\n' % (kind.encode(), obj)))
        self.changed.set()
        self.changed = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        if request.parameter("watch"):
            if request.parameter("sendInitialEvents") and not self.streams_initial_events:
                return Response(422, body=b'{"code":422}')
            return Response(200, stream=self.watch(request.parameter("resourceVersion")))
        page = {"metadata": {"resourceVersion": str(self.version)}}
        items = b",".join(self.objects.values())
        return Response(200, body=orjson.dumps(page)[:-1] + b',"items":[' + items + b"]}")

    async def watch(self, since: str) -> AsyncIterator[bytes]:
        seen = int(since or self.version)
        if not since:
            for obj in list(self.objects.values()):
                yield b'{"type":"ADDED","object":%s}\n' % obj
            yield self.bookmark(seen, end=True)
        while True:
            news = [(version, line) for version, line in self.history if version > seen]
            for seen, line in news:  # noqa: B007 - the last one seen counts
                yield line
            if not news:
                with suppress(TimeoutError):
                    async with asyncio.timeout(60):
                        await self.changed.wait()
                        continue
                seen = self.version
                yield self.bookmark(seen)

    def bookmark(self, version: int, *, end: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return orjson.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}) + b"\n"


class View:
    """The state as a consumer of `list_and_watch` sees it."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def keep(self, client: Client, options: WatchOptions) -> None:
        async with aclosing(list_and_watch(client, SECRETS, options=options)) as facts:
            async for fact in facts:
                if isinstance(fact, Snapshot):
                    self.objects = {name_of(raw): raw for raw in fact.items}
                elif isinstance(fact, ObjectChange):
                    self.objects.pop(name_of(fact.raw), None)
                    self.objects |= {} if fact.type == "DELETED" else {name_of(fact.raw): fact.raw}


def name_of(raw: bytes) -> str:
    return str(orjson.loads(raw)["metadata"]["name"])


STORMY = FaultPlan(
    refuse=0.1,
    lose=0.1,
    cut=0.1,
    fail=0.1,
    stall=0.02,
    delay=0.1,
    watch=WatchFaults(drop=0.05, cut=0.05, delay=0.1, duplicate=0.1, reorder=0.1, stall=0.02, expire=0.03),
)
WRITES = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.floats(0, 3)), max_size=40)


async def run_with_faults(writes: list[tuple[str, bool, float]], seed: int, *, streams: bool) -> tuple[Store, View]:
    store, view = Store(streams_initial_events=streams), View()
    transport = FaultyTransport(InProcessTransport(store), STORMY, Random(seed))
    options = WatchOptions(random=Random(seed))
    task = asyncio.create_task(view.keep(Client(transport, random=Random(seed)), options))
    for name, delete, pause in writes:
        await asyncio.sleep(pause)
        store.write(name, delete=delete)
    transport.plan = FaultPlan()
    await asyncio.sleep(3 * (options.session[1] + 60))  # a watch stalled before its first bookmark lasts a session
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return store, view


@settings(max_examples=40)
@given(writes=WRITES, seed=st.integers(0, 2**32), streams=st.booleans())
def test_watch_reports_the_true_state_after_any_faults(
    writes: list[tuple[str, bool, float]],
    seed: int,
    streams: bool,  # noqa: FBT001 - drawn by name
) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        store, view = runner.run(run_with_faults(writes, seed, streams=streams))

    assert view.objects == store.objects


async def outcomes(seed: int) -> list[str]:
    transport = FaultyTransport(
        InProcessTransport(Store(streams_initial_events=True)), replace(STORMY, stall=0), Random(seed)
    )
    client = Client(transport, retry=NO_RETRY)
    results = []
    for _ in range(50):
        try:
            results.append(str(await client.get(SECRETS, ObjectKey("n", "x"))))
        except KubeError as error:
            results.append(repr(error))
    return results


async def test_the_same_seed_breaks_the_same_way() -> None:
    assert await outcomes(7) == await outcomes(7)
    assert len(set(await outcomes(7))) > 2


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        pytest.param(FaultPlan(refuse=1), "refuse", id="refused"),
        pytest.param(FaultPlan(lose=1), "lose", id="answer lost"),
        pytest.param(FaultPlan(cut=1), "cut", id="answer cut"),
        pytest.param(FaultPlan(fail=1), "fail", id="error code"),
        pytest.param(FaultPlan(stall=1), "stall", id="never answered"),
        pytest.param(FaultPlan(delay=1), "delay", id="late"),
    ],
)
async def test_each_fault_of_a_request_can_be_had_alone_and_is_counted(plan: FaultPlan, fault: str) -> None:
    transport = FaultyTransport(InProcessTransport(Store(streams_initial_events=True)), plan, Random(1))

    with suppress(KubeError):
        await Client(transport, retry=NO_RETRY).get(SECRETS, ObjectKey("n", "x"))

    assert transport.injected == {fault: 1}
