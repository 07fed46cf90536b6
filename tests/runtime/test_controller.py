from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from random import Random

import orjson
import pytest

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.kube.errors import Conflict, ServerError, TooManyRequests, Unreachable
from watchword.kube.watch import Bookmark, ObjectChange, Snapshot, WatchUpdate
from watchword.runtime.cache import Cache
from watchword.runtime.controller import Controller, RequeueDecision, decide_requeue
from watchword.runtime.informer import Reduction, WatchScope
from watchword.runtime.metrics import Metrics, ReconcileResult
from watchword.runtime.raw_objects import Facts
from watchword.runtime.reconcile import (
    ControllerSpec,
    Done,
    Outcome,
    RetryAfter,
    Terminal,
    Trigger,
    TriggerSource,
    note_refusal,
)

A, B = ObjectKey("ns", "a"), ObjectKey("ns", "b")
HOUR = timedelta(hours=1)


def now() -> float:
    return asyncio.get_running_loop().time()


def raw(name: str, version: int = 1, **fields: object) -> bytes:
    return orjson.dumps(
        {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}, **fields}
    )


def throttled(seconds: float) -> TooManyRequests:
    error = TooManyRequests("slow down", code=429)
    error.retry_after = seconds
    return error


@dataclass
class Scripted:
    """Does what the script says on each reconcile of a key, then nothing; records the times."""

    script: dict[ObjectKey, list[Callable[[], Awaitable[Outcome]]]] = field(default_factory=dict)
    visits: list[tuple[str, float]] = field(default_factory=list)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        self.visits.append((key.name, round(now(), 3)))
        steps = self.script.get(key)
        return await steps.pop(0)() if steps else Done()


@dataclass
class Busy:
    """Never waits."""

    visits: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        self.visits.append(key.name)
        self.begun.set()
        return Done()


def returns(outcome: Outcome) -> Callable[[], Awaitable[Outcome]]:
    async def step() -> Outcome:
        return outcome

    return step


def takes(seconds: float) -> Callable[[], Awaitable[Outcome]]:
    async def step() -> Outcome:
        await asyncio.sleep(seconds)
        return Done()

    return step


def raises(error: BaseException) -> Callable[[], Awaitable[Outcome]]:
    async def step() -> Outcome:
        raise error

    return step


async def is_broken() -> Outcome:
    raise ValueError("bug")


async def hangs() -> Outcome:
    await asyncio.Event().wait()
    return Done()


async def no_feed(resource: Resource, scope: WatchScope, reduce: Reduction) -> AsyncGenerator[WatchUpdate, None]:
    for version in tuple[str, ...]():
        yield Bookmark(version)


@asynccontextmanager
async def running(
    reconciler: Scripted,
    *,
    triggers: tuple[Trigger, ...] = (),
    workers: int = 2,
    metrics: Metrics | None = None,
    trigger_source: TriggerSource | None = None,
    concerns: Callable[[Object], bool] = lambda _: True,
    facts: Facts | None = None,
    acts_on_deletion: bool = True,
) -> AsyncIterator[tuple[Controller, Cache]]:
    spec = ControllerSpec(
        "test",
        SECRETS,
        reconciler,
        triggers=triggers,
        workers=workers,
        trigger_source=trigger_source,
        concerns=concerns,
        facts=facts,
        acts_on_deletion=acts_on_deletion,
    )
    cache = Cache(no_feed)
    controller = Controller(spec, metrics=metrics or Metrics(), random=Random(1))
    controller.subscribe({"": cache})
    cache.informer(SECRETS).handle_update(Snapshot([raw("a"), raw("b")], "5"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller, cache
        task.cancel()


def is_labelled(secret: Object) -> bool:
    return bool(secret["metadata"]["labels"])


async def test_object_that_does_not_concern_a_controller_is_not_reconciled() -> None:
    reconciler = Scripted()
    async with running(reconciler, concerns=lambda obj: obj["metadata"]["name"] == "b"):
        await asyncio.sleep(60)

    assert [name for name, _ in reconciler.visits] == ["b"]


def read_data(obj: Object) -> object:
    return obj["data"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(raw("a", 6, data="1", type="other"), [], id="of another field"),
        pytest.param(raw("a", 6, data="2"), ["a"], id="of the field"),
        pytest.param(raw("a", 6), ["a"], id="after which the field cannot be read"),
        pytest.param(raw("a", 6, data="1").replace(b'"uid":"a"', b'"uid":"z"'), ["a"], id="to an object made anew"),
        pytest.param(raw("c", 6, data="1"), ["c"], id="by which the object appears"),
    ],
)
@pytest.mark.parametrize("resource", [pytest.param(SECRETS, id="root"), pytest.param(CONFIG_MAPS, id="trigger")])
async def test_change_is_reconciled_when_the_facts_that_a_controller_reads_differ(
    change: bytes, expected: list[str], resource: Resource
) -> None:
    reconciler = Scripted()
    trigger = Trigger(CONFIG_MAPS, lambda obj: [ObjectKey.of(obj)], facts=read_data)
    async with running(reconciler, triggers=(trigger,), facts=read_data) as (_, cache):
        cache.informer(resource).handle_update(Snapshot([raw("a", 2, data="1")], "5"))
        await asyncio.sleep(60)
        cache.informer(resource).handle_update(ObjectChange("MODIFIED", change, "6"))
        await asyncio.sleep(60)

    assert [name for name, at in reconciler.visits if at == 60] == expected


async def test_object_that_is_gone_is_not_reconciled_where_nothing_is_left_to_do() -> None:
    reconciler = Scripted()
    async with running(reconciler, acts_on_deletion=False) as (_, cache):
        await asyncio.sleep(60)
        cache.informer(SECRETS).handle_update(ObjectChange("DELETED", raw("a", 6), "6"))
        await asyncio.sleep(60)

    assert reconciler.visits == [("a", 0), ("b", 0)]


async def test_object_that_concerned_a_controller_is_reconciled_when_it_is_gone() -> None:
    reconciler = Scripted()
    async with running(reconciler, concerns=lambda _: False) as (_, cache):
        cache.informer(SECRETS).handle_update(ObjectChange("DELETED", raw("a", 6), "6"))
        await asyncio.sleep(60)

    assert [name for name, _ in reconciler.visits] == ["a"]


async def test_object_of_which_cannot_be_told_whether_it_concerns_a_controller_is_reconciled() -> None:
    reconciler = Scripted()
    async with running(reconciler, concerns=is_labelled):  # there are no labels
        await asyncio.sleep(60)

    assert sorted(name for name, _ in reconciler.visits) == ["a", "b"]


async def test_every_object_that_exists_is_reconciled_once() -> None:
    reconciler = Scripted()
    async with running(reconciler):
        await asyncio.sleep(60)

    assert reconciler.visits == [("a", 0), ("b", 0)]


@pytest.mark.parametrize(
    ("keys", "busy", "started"),
    [
        pytest.param(0, 0, 1, id="no key"),
        pytest.param(1, 1, 2, id="one key"),
        pytest.param(3, 3, 4, id="some keys"),
        pytest.param(20, 4, 4, id="more keys than workers"),
    ],
)
async def test_workers_are_started_for_the_keys_that_are_reconciled_at_once(keys: int, busy: int, started: int) -> None:
    names = [ObjectKey("ns", str(number)) for number in range(keys)]
    reconciler = Scripted({key: [takes(10)] for key in names})
    controller = Controller(ControllerSpec("many", SECRETS, reconciler, workers=4), metrics=Metrics(), random=Random(1))
    for key in names:
        controller.queue.add(key)
    working = asyncio.create_task(controller.run())

    await asyncio.sleep(5)

    assert len(reconciler.visits) == busy
    assert sum(task.get_name().startswith("many worker") for task in asyncio.all_tasks()) == started
    await asyncio.sleep(60)
    assert len(reconciler.visits) == keys
    await controller.drain(HOUR)
    await working


async def test_keys_that_come_one_after_the_other_start_no_more_workers() -> None:
    reconciler = Scripted()
    async with running(reconciler, workers=8) as (controller, _):
        for _ in range(20):
            controller.queue.add(A)
            await asyncio.sleep(60)

        assert sum(task.get_name().startswith("test worker") for task in asyncio.all_tasks()) <= 3
    assert len(reconciler.visits) > 20


async def test_worker_with_many_keys_lets_others_run_in_between() -> None:
    busy = Busy()
    controller = Controller(ControllerSpec("busy", SECRETS, busy, workers=1), metrics=Metrics(), random=Random(1))
    for number in range(10):
        controller.queue.add(ObjectKey("ns", str(number)))
    working = asyncio.create_task(controller.run())

    await busy.begun.wait()

    assert len(busy.visits) < 10
    await controller.queue.idle()
    await controller.drain(HOUR)
    await working


async def test_trigger_enqueues_a_key_and_has_no_effect_before_the_controller_runs() -> None:
    reconciler, trigger_source = Scripted(), TriggerSource()
    trigger_source.enqueue(A)
    async with running(reconciler, trigger_source=trigger_source):
        await asyncio.sleep(60)
        trigger_source.enqueue(B)
        await asyncio.sleep(1)

    assert reconciler.visits == [("a", 0), ("b", 0), ("b", 60)]


async def test_retry_after_comes_back_at_the_instant_and_only_then() -> None:
    reconciler = Scripted({A: [returns(RetryAfter(HOUR)), returns(RetryAfter(HOUR))]})
    async with running(reconciler):
        await asyncio.sleep(86400)

    assert [visit for visit in reconciler.visits if visit[0] == "a"] == [("a", 0), ("a", 3600), ("a", 7200)]


async def test_failing_object_backs_off_without_delaying_others() -> None:
    reconciler = Scripted({A: [is_broken] * 4})
    async with running(reconciler, workers=1):
        await asyncio.sleep(60)

    instants = [instant for name, instant in reconciler.visits if name == "a"]
    assert len(instants) == 5
    assert instants[-1] < 0.2
    assert ("b", 0) in reconciler.visits


async def test_a_poison_object_is_slowed_after_five_failures() -> None:
    reconciler = Scripted({A: [is_broken] * 10_000})
    async with running(reconciler) as (controller, _):
        await asyncio.sleep(3600)

        assert controller.queue.quarantined == 1
        assert len(reconciler.visits) < 35


async def refuses() -> Outcome:
    note_refusal("NameConflict")
    return Done()


@pytest.mark.parametrize(
    "step", [pytest.param(refuses, id="refused"), pytest.param(raises(Terminal("no such driver")), id="terminal")]
)
async def test_what_waits_for_something_that_triggers_nothing_is_looked_at_less_and_less_often(
    step: Callable[[], Awaitable[Outcome]],
) -> None:
    reconciler = Scripted({A: [step] * 30})
    async with running(reconciler):
        await asyncio.sleep(86400)

    times = [at for name, at in reconciler.visits if name == "a"]
    pauses = [after - before for before, after in pairwise(times)]
    assert 48 <= pauses[0] <= 60
    assert all(before < after for before, after in pairwise(pauses[2:6]))
    assert all(2880 <= pause <= 3600 for pause in pauses[10:])
    assert len(times) > 24


async def test_refusal_that_is_over_is_not_looked_at_again() -> None:
    reconciler = Scripted({A: [refuses, refuses]})
    async with running(reconciler):
        await asyncio.sleep(86400)

    assert [name for name, _ in reconciler.visits] == ["a", "b", "a", "a"]


async def test_a_terminal_failure_is_tried_again_at_a_change() -> None:
    reconciler = Scripted({A: [raises(Terminal("no such driver"))]})
    async with running(reconciler) as (_, cache):
        await asyncio.sleep(5)
        cache.informer(SECRETS).handle_update(ObjectChange("MODIFIED", raw("a", 6), "6"))
        await asyncio.sleep(86400)

    assert reconciler.visits == [("a", 0), ("b", 0), ("a", 5)]


async def test_a_reconcile_past_its_deadline_is_cancelled_and_tried_again() -> None:
    metrics = Metrics()
    reconciler = Scripted({A: [hangs]})
    async with running(reconciler, workers=1, metrics=metrics):
        await asyncio.sleep(120)

    assert [name for name, _ in reconciler.visits] == ["a", "b", "a"]
    labels = {"controller": "test", "result": "deadline"}
    assert metrics.registry.get_sample_value("watchword_reconcile_total", labels) == 1


async def test_a_cancellation_out_of_thin_air_does_not_cost_a_worker() -> None:
    reconciler = Scripted({A: [raises(asyncio.CancelledError())]})
    async with running(reconciler, workers=1):
        await asyncio.sleep(60)

    assert [name for name, _ in reconciler.visits] == ["a", "b", "a"]


@pytest.mark.parametrize("instead", [returns(Done()), raises(Unreachable("connection lost"))], ids=["result", "error"])
async def test_worker_ends_when_a_library_turns_its_cancellation_into_something_else(
    instead: Callable[[], Awaitable[Outcome]],
) -> None:
    async def loses_cancellation() -> Outcome:
        try:
            return await hangs()
        except asyncio.CancelledError:
            return await instead()

    async with asyncio.timeout(60), running(Scripted({A: [loses_cancellation]}), workers=1):
        await asyncio.sleep(1)

    assert now() == 1


async def test_another_kind_triggers_the_objects_it_refers_to_and_referred_to_before() -> None:
    def target(obj: Object) -> list[ObjectKey]:
        return [ObjectKey("ns", obj["data"]["for"])]

    reconciler = Scripted()
    async with running(reconciler, triggers=(Trigger(CONFIG_MAPS, target),)) as (_, cache):
        informer = cache.informer(CONFIG_MAPS)
        informer.handle_update(Snapshot([raw("config", data={"for": "a"})], "5"))
        await asyncio.sleep(10)
        informer.handle_update(ObjectChange("MODIFIED", raw("config", 6, data={"for": "b"}), "6"))
        informer.handle_update(ObjectChange("ADDED", raw("poison", 7), "7"))
        await asyncio.sleep(10)

    assert reconciler.visits == [("a", 0), ("b", 0), ("a", 10), ("b", 10)]


async def test_draining_waits_for_work_in_flight_and_takes_no_more() -> None:
    async def slow() -> Outcome:
        await asyncio.sleep(5)
        return RetryAfter(timedelta(0))

    reconciler = Scripted({A: [slow]})
    async with running(reconciler, workers=1) as (controller, _):
        await asyncio.sleep(1)

        assert await controller.drain(timedelta(seconds=30))

    assert (now(), reconciler.visits) == (5, [("a", 0)])


async def test_draining_gives_up_at_its_bound() -> None:
    async with running(Scripted({A: [hangs]})) as (controller, _):
        await asyncio.sleep(1)

        assert not await controller.drain(timedelta(seconds=30))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(Terminal("x"), RequeueDecision(ReconcileResult.TERMINAL, retry=False), id="retrying cannot help"),
        pytest.param(Conflict("x", code=409), RequeueDecision(ReconcileResult.CONFLICT), id="conflict"),
        pytest.param(ServerError("x", code=500), RequeueDecision(ReconcileResult.ERROR), id="the server fails"),
        pytest.param(Unreachable("x"), RequeueDecision(ReconcileResult.ERROR), id="no answer"),
        pytest.param(
            throttled(7), RequeueDecision(ReconcileResult.ERROR, at_least=timedelta(seconds=7)), id="asked to wait"
        ),
        pytest.param(
            throttled(1e9),
            RequeueDecision(ReconcileResult.ERROR, at_least=timedelta(minutes=5)),
            id="asked to wait for ever",
        ),
        pytest.param(KeyError("x"), RequeueDecision(ReconcileResult.ERROR, expected=False), id="a bug"),
        pytest.param(TimeoutError(), RequeueDecision(ReconcileResult.ERROR, expected=False), id="a timeout of its own"),
    ],
)
def test_decide_failure(error: Exception, expected: RequeueDecision) -> None:
    assert decide_requeue(error, overdue=False) == expected
