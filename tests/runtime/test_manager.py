from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest
from tests.helpers.memory_api import DelayedConnection, MemoryApi

from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import LEASES, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import Unreachable
from watchword.kube.request_sender import NO_RETRY
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import choose_timer_shift, watch_for_clock_jumps
from watchword.runtime.errors import NotLeading, UnexpectedExit
from watchword.runtime.event_loop import stop_on_signals
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.reconcile import ControllerSpec, Done, Observer, Outcome
from watchword.testing.virtual_time import VirtualClock

LEASE = ObjectKey("ns", "leader")
KEY = ObjectKey("ns", "a")


@dataclass
class Marker:
    """Marks every Secret once, and counts the reconciles."""

    hub: ApiServerConnection
    visits: list[str] = field(default_factory=list)
    pause: float = 0

    async def reconcile(self, key: ObjectKey) -> Outcome:
        self.visits.append(key.name)
        secret = self.hub.cache.get(SECRETS, key)
        await asyncio.sleep(self.pause)
        if secret is not None:
            await self.hub.status.set_condition(SECRETS, secret, Condition.true("Marked", "Seen"))
        return Done()


class Process:
    """One replica: a manager, its reconciler and its line to the API."""

    def __init__(self, api: MemoryApi, name: str, *, lease: ObjectKey | None = None) -> None:
        self.line = DelayedConnection(api)
        self.stop = asyncio.Event()
        options = ManagerOptions("watchword.io/test", name, lease=lease)
        self.manager = Manager(options, clock=VirtualClock(asyncio.get_running_loop()), random=Random(name))
        self.marker = Marker(self.manager.connect(Client.from_handler(self.line.handle, retry=NO_RETRY)))
        self.observed: list[tuple[str, bool]] = []  # names, and whether an earlier version was known
        observer = Observer(SECRETS, lambda delta: self.observed.append((delta.key.name, delta.old is not None)))
        self.manager.add(ControllerSpec("marker", SECRETS, self.marker), observer)
        self.task = asyncio.create_task(self.manager.run(self.stop))


@asynccontextmanager
async def process(api: MemoryApi, name: str = "one", *, lease: ObjectKey | None = None) -> AsyncIterator[Process]:
    started = Process(api, name, lease=lease)
    try:
        yield started
    finally:
        started.task.cancel()
        await asyncio.gather(started.task, return_exceptions=True)


@pytest.fixture
def api() -> MemoryApi:
    api = MemoryApi()
    put(api, "a")
    return api


def put(api: MemoryApi, name: str) -> Object:
    return api.put(SECRETS.path(ObjectKey("ns", name)), SECRETS.manifest(ObjectKey("ns", name)))


def is_marked(api: MemoryApi, name: str) -> bool:
    return "status" in api.objects[SECRETS.path(ObjectKey("ns", name))]


async def test_what_exists_and_what_comes_is_reconciled(api: MemoryApi) -> None:
    async with process(api):
        await asyncio.sleep(10)
        put(api, "b")
        await asyncio.sleep(10)

        assert is_marked(api, "a")
        assert is_marked(api, "b")


async def test_our_own_writes_cost_one_request_and_one_look(api: MemoryApi) -> None:
    async with process(api) as one:
        await asyncio.sleep(600)

        assert one.marker.visits == ["a", "a"]
        assert [method for method, _ in api.requests if method != "GET"] == ["PATCH"]


async def test_a_process_asked_to_stop_finishes_what_it_has_begun(api: MemoryApi) -> None:
    async with process(api) as one:
        one.marker.pause = 5
        await asyncio.sleep(2)

        one.stop.set()
        await one.task

        assert is_marked(api, "a")
        assert one.marker.visits == ["a"]
        assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)


async def test_a_process_asked_to_stop_before_it_ever_reached_the_server_stops(api: MemoryApi) -> None:
    async with process(api) as one:
        one.line.delay = lambda: None
        await asyncio.sleep(100)

        one.stop.set()
        await one.task

        assert one.manager.health.answer("/readyz").status == 503


async def test_only_the_leader_works_and_when_it_stops_the_other_goes_on(api: MemoryApi) -> None:
    async with process(api, "one", lease=LEASE) as one, process(api, "two", lease=LEASE) as two:
        await asyncio.sleep(60)
        leader, standby = (one, two) if one.marker.visits else (two, one)
        assert not standby.marker.visits

        leader.stop.set()
        await leader.task
        put(api, "b")
        await asyncio.sleep(10)

        assert "b" in standby.marker.visits
        assert is_marked(api, "b")


async def test_observers_see_every_object_and_every_change_while_the_process_leads(api: MemoryApi) -> None:
    async with process(api, "one", lease=LEASE) as one, process(api, "two", lease=LEASE) as two:
        await asyncio.sleep(60)
        leader, standby = (one, two) if one.marker.visits else (two, one)
        put(api, "b")
        api.put(SECRETS.path(KEY), {**api.objects[SECRETS.path(KEY)], "data": {}})
        await asyncio.sleep(10)

        assert {("a", False), ("b", False), ("a", True)} <= set(leader.observed)
        assert standby.observed == []


async def test_a_standby_asked_to_stop_stops_and_leaves_the_lease_alone(api: MemoryApi) -> None:
    async with process(api, "one", lease=LEASE) as one, process(api, "two", lease=LEASE) as two:
        await asyncio.sleep(60)
        leader, standby = (one, two) if one.marker.visits else (two, one)

        standby.stop.set()
        await standby.task

        assert api.objects[LEASES.path(LEASE)]["spec"]["holderIdentity"] == leader.manager.options.identity


async def test_a_deposed_leader_ends_loudly_and_its_writes_are_refused(api: MemoryApi) -> None:
    async with process(api, "one", lease=LEASE) as one:
        await asyncio.sleep(60)
        one.line.delay = lambda: None

        with pytest.raises(NotLeading):
            await one.task
        one.line.delay = lambda: 0.0

        with pytest.raises(NotLeading):
            await one.marker.hub.client.patch(SECRETS, KEY, {"data": {}})


async def ends() -> None:
    await asyncio.sleep(30)


async def crashes() -> None:
    await asyncio.sleep(30)
    raise Unreachable("no database")


@pytest.mark.parametrize(
    ("job", "error"), [pytest.param(ends, UnexpectedExit, id="ends"), pytest.param(crashes, Unreachable, id="crashes")]
)
async def test_failed_part_ends_the_whole_process(
    api: MemoryApi, job: Callable[[], asyncio.Future[None]], error: type[Exception]
) -> None:
    one = Process(api, "one")
    one.manager.add_job("extra", job)

    with pytest.raises(error):
        await one.task

    put(api, "b")
    await asyncio.sleep(60)
    assert not is_marked(api, "b")


async def test_readiness_follows_the_age_of_the_watch(api: MemoryApi) -> None:
    async with process(api) as one:
        await asyncio.sleep(300)
        assert one.manager.health.answer("/readyz").status == 200

        one.line.delay = lambda: None
        await asyncio.sleep(3600)

        assert b"secrets silent" in one.manager.health.answer("/readyz").body
        metrics = one.manager.health.answer("/metrics").body.decode()
        assert 'watchword_watch_last_event_age_seconds{resource="secrets"}' in metrics


async def test_idle_means_that_nothing_is_left_to_do_now(api: MemoryApi) -> None:
    async with process(api) as one:
        await asyncio.sleep(1)
        put(api, "b")
        await asyncio.sleep(0.1)

        await one.manager.idle()

        assert is_marked(api, "b")


@pytest.mark.parametrize(
    ("wall", "monotonic", "expected"),
    [
        pytest.param(60, 60, 0, id="in step"),
        pytest.param(61, 60, 0, id="a little ahead"),
        pytest.param(3660, 60, 3600, id="the machine slept"),
        pytest.param(-3540, 60, 0, id="set back"),
    ],
)
def test_choose_shift(wall: int, monotonic: int, expected: int) -> None:
    shift = choose_timer_shift(timedelta(seconds=wall), timedelta(seconds=monotonic))

    assert shift == timedelta(seconds=expected)


async def test_a_jump_of_the_clock_is_noticed_within_its_period() -> None:
    clock = VirtualClock(asyncio.get_running_loop())
    shifts: list[float] = []
    task = asyncio.create_task(watch_for_clock_jumps(clock, timedelta(minutes=1), shifts.append))
    await asyncio.sleep(90)

    clock.skew = timedelta(hours=1)
    await asyncio.sleep(300)

    assert shifts == [3600]
    task.cancel()


@pytest.mark.real_time
async def test_a_signal_asks_to_stop() -> None:
    stop = asyncio.Event()
    with stop_on_signals(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await stop.wait()
