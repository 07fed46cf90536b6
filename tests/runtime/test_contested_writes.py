"""A controller that writes against another program slows down, and says so."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTERS, SERVICE_ACCOUNTS
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.tokens import request_token
from watchword.registration.hub import installation as prerequisites
from watchword.runtime.contested_writes import FIRST_PAUSE_SECONDS, TOLERATED_REWRITES
from watchword.runtime.errors import CreationContested, FieldContested
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome
from watchword.runtime.status import StatusChange, StatusWriter
from watchword.runtime.write_transports import ControllerTransport, Fence
from watchword.testing.builders import a_cluster
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # hours of virtual time

KEY = ObjectKey.cluster("edge-1")
HUBS = Condition.unknown("Available", "LeaseExpired", "silent")
AGENTS = Condition.true("Available", "Available", "well")
HOUR = 3600


class Counts(Metrics):
    """Keeps what is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.contested: list[str] = []

    def contested_write(self, field: str) -> None:
        self.contested.append(field)

    def field_conflict(self, manager: str) -> None:
        raise AssertionError(manager)


class Writers:
    """Two programs, of which one is guarded; both write the conditions of one cluster."""

    def __init__(self, plane: Plane) -> None:
        self.counts = Counts()
        client = plane.client()
        self.rival, self.clock = client, plane.clock
        fence = Fence(plane.clock, is_open=True)
        self.guarded = client.over(ControllerTransport(client.transport, lambda _: None, fence, self.counts))

    async def write(self, client: Client, *conditions: Condition) -> None:
        found = await self.rival.get(MANAGED_CLUSTERS, KEY)
        await StatusWriter(client, self.clock).set_conditions(MANAGED_CLUSTERS, found, conditions)


@pytest.fixture
async def writers(plane: Plane) -> Writers:
    found = Writers(plane)
    await prerequisites.install(found.rival)
    await found.rival.create(MANAGED_CLUSTERS, a_cluster(KEY.name))
    return found


async def contest(writers: Writers, seconds: int) -> list[float]:
    """Let both write as fast as once a second; return when the guarded one got through."""
    loop, written = asyncio.get_running_loop(), list[float]()
    started = loop.time()
    while loop.time() - started < seconds:
        await writers.write(writers.rival, AGENTS)
        try:
            await writers.write(writers.guarded, HUBS)
        except FieldContested:
            pass
        else:
            written.append(loop.time() - started)
        await asyncio.sleep(1)
    return written


async def test_condition_that_is_changed_back_is_written_less_and_less_often(writers: Writers) -> None:
    written = await contest(writers, HOUR)

    assert len([at for at in written if at < 60]) <= TOLERATED_REWRITES + 3
    assert len(written) <= TOLERATED_REWRITES + 15
    assert set(writers.counts.contested) == {"status.conditions[Available]"}


async def test_condition_that_is_changed_back_without_pause_is_given_up_at_once(writers: Writers) -> None:
    async def contest_without_pause() -> None:
        for _ in range(200):
            await writers.write(writers.rival, AGENTS)
            await writers.write(writers.guarded, HUBS)

    with pytest.raises(FieldContested):
        await contest_without_pause()


async def test_condition_that_another_write_carries_along_between_is_given_up_as_well(writers: Writers) -> None:
    async def contest_with_other_writes() -> None:
        for number in range(400):
            await writers.write(writers.rival, AGENTS)
            await writers.write(writers.guarded, Condition.true("Joined", "Joined", str(number)))
            await writers.write(writers.guarded, HUBS)
            await asyncio.sleep(0.1)

    with pytest.raises(FieldContested, match="Available"):
        await contest_with_other_writes()


async def test_other_conditions_of_the_object_are_written_meanwhile(writers: Writers) -> None:
    await contest(writers, 30)

    for number in range(20):
        await writers.write(writers.guarded, AGENTS, Condition.true("Joined", "Joined", str(number)))
    assert writers.counts.contested == ["status.conditions[Available]"]


async def test_row_that_is_written_alone_and_changed_back_is_given_up(writers: Writers) -> None:
    await writers.write(writers.rival, AGENTS)
    status = StatusWriter(writers.guarded, writers.clock)

    async def insist() -> None:
        for _ in range(100):
            found = await writers.rival.get(MANAGED_CLUSTERS, KEY)
            await status.write_rows_if_unchanged(MANAGED_CLUSTERS, found, StatusChange(conditions=(HUBS,)))
            await writers.write(writers.rival, AGENTS)

    with pytest.raises(FieldContested, match="Available"):
        await insist()

    assert writers.counts.contested == ["status.conditions[Available]"]


async def test_contest_that_ended_is_forgotten(writers: Writers) -> None:
    await contest(writers, 30)
    await asyncio.sleep(HOUR)

    await writers.write(writers.rival, AGENTS)
    await writers.write(writers.guarded, HUBS)
    await writers.write(writers.rival, AGENTS)
    await writers.write(writers.guarded, HUBS)


async def test_condition_that_comes_and_goes_by_itself_is_written_each_time(writers: Writers) -> None:
    for _ in range(30):
        await writers.write(writers.guarded, HUBS)
        await writers.write(writers.guarded, AGENTS)
        await asyncio.sleep(1)

    assert writers.counts.contested == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param({"data": {"a": "1"}}, {"data": {"a": "2"}}, id="a value"),
        pytest.param({"data": {"a": None}}, {"data": {"a": "2"}}, id="a removal"),
        pytest.param({"metadata": {"labels": {"x/y": "1"}}}, {"metadata": {"labels": None}}, id="a label"),
        pytest.param({"metadata": {"finalizers": ["x/y"]}}, {"metadata": {"finalizers": None}}, id="a finalizer"),
    ],
)
async def test_any_field_can_be_contested(writers: Writers, ours: Object, theirs: Object) -> None:
    key = ObjectKey("default", "shared")
    await writers.rival.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={}))

    async def alternate() -> None:
        for _ in range(20):
            await writers.guarded.patch(CONFIG_MAPS, key, ours)
            await writers.rival.patch(CONFIG_MAPS, key, theirs)

    with pytest.raises(FieldContested, match="default/configmaps/shared"):
        await alternate()


async def test_object_that_is_deleted_again_and_again_is_not_created_without_pause(writers: Writers) -> None:
    key = ObjectKey("default", "unwanted")

    async def alternate() -> None:
        for _ in range(20):
            await writers.guarded.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={}))
            await writers.rival.delete(CONFIG_MAPS, key)

    with pytest.raises(CreationContested, match=r"keeps deleting .*/configmaps/unwanted: waiting 30 s before"):
        await alternate()


async def test_applied_object_that_is_deleted_again_and_again_is_not_made_with_other_content(
    writers: Writers,
) -> None:
    key = ObjectKey("default", "shared")

    async def alternate() -> None:
        for number in range(20):
            wanted = CONFIG_MAPS.manifest(key, data={"by": str(number)})
            await writers.guarded.apply(CONFIG_MAPS, wanted)
            await writers.rival.delete(CONFIG_MAPS, key)

    with pytest.raises(CreationContested):
        await alternate()


async def test_object_that_another_program_creates_after_the_contest_is_applied_at_once(writers: Writers) -> None:
    key = ObjectKey("default", "shared")

    async def apply(value: str) -> None:
        await writers.guarded.apply(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"by": value}), force=True)

    for number in range(TOLERATED_REWRITES + 2):
        await apply(str(number))
        await writers.rival.delete(CONFIG_MAPS, key)
        await asyncio.sleep(5)
    await writers.rival.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"by": "them"}))

    await apply("us")

    assert (await writers.rival.get(CONFIG_MAPS, key))["data"] == {"by": "us"}
    await writers.rival.delete(CONFIG_MAPS, key)
    with pytest.raises(CreationContested):
        await apply("us again")


async def test_object_of_another_program_is_applied_with_the_same_content_as_it_was_created_with(
    writers: Writers,
) -> None:
    key = ObjectKey("default", "shared")
    wanted = CONFIG_MAPS.manifest(key, data={"by": "us"})

    for _ in range(TOLERATED_REWRITES + 2):
        await writers.guarded.apply(CONFIG_MAPS, wanted, force=True)
        await writers.rival.delete(CONFIG_MAPS, key)
        await asyncio.sleep(5)
    with pytest.raises(CreationContested):
        await writers.guarded.apply(CONFIG_MAPS, wanted, force=True)
    await writers.rival.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"by": "them"}))

    await writers.guarded.apply(CONFIG_MAPS, wanted, force=True)

    assert (await writers.rival.get(CONFIG_MAPS, key))["data"] == {"by": "us"}


async def test_object_that_stays_is_applied_as_often_as_its_content_changes(writers: Writers) -> None:
    key = ObjectKey("default", "shared")

    for number in range(50):
        await writers.guarded.apply(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"by": str(number)}))

    assert (await writers.rival.get(CONFIG_MAPS, key))["data"] == {"by": "49"}


async def test_applied_fields_that_are_changed_back_are_given_up(writers: Writers) -> None:
    key = ObjectKey("default", "shared")

    async def alternate() -> None:
        for _ in range(20):
            await writers.guarded.apply(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"by": "us"}), force=True)
            await writers.rival.patch(CONFIG_MAPS, key, {"data": {"by": "them"}})

    with pytest.raises(FieldContested, match="the applied fields"):
        await alternate()


async def test_object_that_is_deleted_now_and_then_is_created_at_once_each_time(writers: Writers) -> None:
    key = ObjectKey("default", "wanted")

    for number in range(30):
        await writers.guarded.create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={}))
        await writers.rival.delete(CONFIG_MAPS, key)
        await asyncio.sleep(2 * 60 if number % TOLERATED_REWRITES == 0 else 1)

    assert writers.counts.contested == []


async def test_creations_without_a_name_of_their_own_are_never_slowed(writers: Writers) -> None:
    account = ObjectKey("default", "robot")
    await writers.rival.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(account))
    generated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "generateName": "a-"}}

    for _ in range(50):
        await writers.guarded.create(CONFIG_MAPS, generated)
        await who_am_i(writers.guarded)
        await request_token(writers.guarded, account, expiration_seconds=HOUR)

    assert writers.counts.contested == []


async def test_every_controller_is_guarded_and_reports_it(writers: Writers, plane: Plane) -> None:
    metrics = Metrics()
    manager = Manager(ManagerOptions("example.com/x", "x"), clock=plane.clock, random=Random(1), metrics=metrics)
    connection = manager.connect(plane.fresh_client())

    class Stubborn:
        async def reconcile(self, key: ObjectKey) -> Outcome:
            found: Any = connection.cache.get(MANAGED_CLUSTERS, key)
            await connection.status.set_condition(MANAGED_CLUSTERS, found, HUBS)
            return Done()

    manager.add(ControllerSpec("stubborn", MANAGED_CLUSTERS, Stubborn()))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stop))
        for _ in range(int(FIRST_PAUSE_SECONDS)):
            await writers.write(writers.rival, AGENTS)
            await asyncio.sleep(1)
        stop.set()

    counted = metrics.registry.get_sample_value
    contested = {"controller": "stubborn", "result": "contested"}
    assert counted("watchword_contested_writes_total", {"field": "status.conditions[Available]"}) == 1
    assert (counted("watchword_reconcile_total", contested) or 0) >= 1
