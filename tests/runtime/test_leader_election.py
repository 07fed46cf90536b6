from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.memory_api import DelayedConnection, MemoryApi

from watchword.api.meta import ObjectKey
from watchword.api.resources import LEASES
from watchword.kube.client import Client
from watchword.kube.request_sender import NO_RETRY
from watchword.runtime.errors import NotLeading
from watchword.runtime.leader_election import ElectionTiming, LeaderElector, ObservedLease, observe_lease
from watchword.runtime.write_transports import Fence
from watchword.testing.virtual_time import VirtualClock, run_virtual

KEY = ObjectKey("ns", "leader")


def lease(holder: str, *, duration: int = 15, renewed: str = "2026-01-01T00:00:00.000000Z") -> ObservedLease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": renewed}
    return ObservedLease({"spec": spec}, since=100)


@pytest.mark.parametrize(
    ("seen", "now", "free"),
    [
        pytest.param(lease("other"), 100, False, id="just seen"),
        pytest.param(lease("other"), 114.9, False, id="silent, not yet for its whole duration"),
        pytest.param(lease("other"), 115, True, id="silent for its whole duration"),
        pytest.param(
            lease("other", renewed="1999-01-01T00:00:00Z"), 101, False, id="an old time inside is not believed"
        ),
        pytest.param(lease(""), 100, True, id="released"),
        pytest.param(lease("other", duration=0), 101, False, id="no duration means the usual one"),
    ],
)
def test_when_a_lease_may_be_taken(seen: ObservedLease, now: float, *, free: bool) -> None:
    assert seen.is_free(now) is free


def test_changed_lease_gets_a_new_observation_time_and_an_unchanged_one_does_not() -> None:
    before = lease("other")

    assert observe_lease(before.lease, before, now=110).since == 100
    assert observe_lease(lease("other", renewed="2026-01-01T00:00:02Z").lease, before, now=110).since == 110


@pytest.mark.parametrize("bad", [(15, 10.0, 12.0), (15, 20.0, 2.0), (15, 10.0, 0.0)])
def test_timings_that_would_overlap_are_refused(bad: tuple[int, float, float]) -> None:
    with pytest.raises(ValueError, match="shorter"):
        ElectionTiming(*bad)


@dataclass
class Replica:
    """One process that competes; `led` collects the spans for which it was allowed to write."""

    name: str
    api: MemoryApi
    delay: Callable[[], float | None] = lambda: 0.0
    skew: timedelta = timedelta(0)
    began: list[float] = field(default_factory=list)
    fence: Fence = field(init=False)
    task: asyncio.Task[None] = field(init=False)

    def start(self) -> Replica:
        clock = VirtualClock(asyncio.get_running_loop(), skew=self.skew)
        self.fence = Fence(clock, is_open=False)
        client = Client.from_handler(DelayedConnection(self.api, self.travel).handle, retry=NO_RETRY)
        elector = LeaderElector(client, KEY, self.name, self.fence, clock, Random(self.name))
        self.task = asyncio.create_task(elector.run(self.lead))
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self

    def travel(self) -> float | None:
        return self.delay()

    async def lead(self) -> None:
        self.began.append(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def replicas(*names: str) -> AsyncIterator[list[Replica]]:
    api = MemoryApi()
    started = [Replica(name, api).start() for name in names]
    try:
        yield started
    finally:
        for replica in started:
            await replica.stop()


async def test_of_two_replicas_one_leads_and_keeps_leading() -> None:
    async with replicas("a", "b") as (a, b):
        await asyncio.sleep(3600)

        assert (a.fence.is_open, b.fence.is_open) == (True, False)
        writes = [method for method, _ in a.api.requests if method != "GET"]
        assert len(writes) == pytest.approx(1800, abs=5)


async def test_a_replica_that_stops_lets_the_other_lead_within_seconds() -> None:
    async with replicas("a", "b") as (a, b):
        await asyncio.sleep(60)
        await a.stop()
        await asyncio.sleep(5)

        assert b.fence.is_open


async def test_a_replica_cut_off_stops_writing_before_the_other_begins() -> None:
    async with replicas("a", "b") as (a, b):
        await asyncio.sleep(60)
        a.delay = lambda: None

        await asyncio.sleep(10)
        assert not a.fence.is_open
        with pytest.raises(NotLeading, match="renewed"):
            await a.task

        await asyncio.sleep(12)
        assert b.fence.is_open
        assert b.began[0] - 60 >= 13


@pytest.mark.parametrize("skew", [timedelta(hours=-5), timedelta(hours=5)])
async def test_wrong_clocks_do_not_matter(skew: timedelta) -> None:
    async with replicas("a", "b") as (a, b):
        c = Replica("c", a.api, skew=skew).start()
        await asyncio.sleep(600)

        assert [replica.fence.is_open for replica in (a, b, c)] == [True, False, False]
        await c.stop()


async def test_a_lease_taken_by_force_ends_leadership_at_the_next_renewal() -> None:
    async with replicas("a") as (a,):
        await asyncio.sleep(60)
        path = LEASES.path(KEY)
        stored = a.api.objects[path]
        a.api.put(path, {**stored, "spec": {**stored["spec"], "holderIdentity": "thief"}})

        with pytest.raises(NotLeading, match="thief"):
            await a.task


async def test_a_program_that_fails_while_leading_gives_the_lease_back() -> None:
    api = MemoryApi()
    replica = Replica("a", api)

    async def crash() -> None:
        raise ZeroDivisionError

    replica.lead = crash  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        await replica.start().task

    assert api.objects[LEASES.path(KEY)]["spec"]["holderIdentity"] == ""


@dataclass
class RequestLoss:
    """How likely each replica's messages are lost; where none are, they are quick."""

    random: Random
    loss: dict[str, float] = field(default_factory=dict)

    def over(self, name: str) -> Callable[[], float | None]:
        def delay() -> float | None:
            loss = self.loss.get(name, 0.0)
            return None if self.random.random() < loss else self.random.random() * (3 if loss else 0.2)

        return delay


async def run_with_request_loss(random: Random) -> None:
    api, request_loss = MemoryApi(), RequestLoss(random)
    candidates = [
        Replica(name, api, request_loss.over(name), timedelta(seconds=random.randint(-7200, 7200))) for name in "abc"
    ]
    for replica in candidates:
        replica.start()
    for step in range(600):
        await asyncio.sleep(random.random())
        if step % 5 == 0:
            request_loss.loss[random.choice("abc")] = random.choice([0.0, 0.0, 0.5, 1.0])
        assert sum(replica.fence.is_open for replica in candidates) <= 1, "two replicas may write at once"
        restart_stopped(candidates)
    request_loss.loss.clear()
    await asyncio.sleep(30)
    restart_stopped(candidates)
    await asyncio.sleep(60)
    assert sum(replica.fence.is_open for replica in candidates) == 1
    for replica in candidates:
        await replica.stop()


def restart_stopped(candidates: list[Replica]) -> None:
    for replica in candidates:
        if replica.task.done():
            replica.start()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_under_any_faults_at_most_one_candidate_may_write_and_afterwards_one_leads(seed: int) -> None:
    run_virtual(run_with_request_loss(Random(seed)), seed=seed)
