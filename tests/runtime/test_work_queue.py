from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.kube.backoff import Backoff
from watchword.runtime.work_queue import LONGEST_RUN, Quarantine, WorkQueue
from watchword.testing.virtual_time import run_virtual


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(random=Random(1))


async def take(queue: WorkQueue[str]) -> str:
    key = await queue.get()
    assert key is not None
    return key


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_key_added_many_times_is_handed_out_once(queue: WorkQueue[str]) -> None:
    for _ in range(5):
        queue.add("a")

    queue.done(await take(queue))

    assert len(queue) == 0


@pytest.mark.real_time
async def test_key_due_within_a_millisecond_is_enqueued_with_others(queue: WorkQueue[str]) -> None:
    queue.add_after("now", 0.0001)  # for so little, uvloop sets no timer
    queue.add_after("later", 60)

    assert await take(queue) == "now"


async def test_a_key_added_while_worked_on_comes_back_only_afterwards(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await take(queue)
    queue.add("a")
    assert len(queue) == 0

    queue.done("a")

    assert await take(queue) == "a"


async def test_a_delayed_key_is_handed_out_at_its_instant(queue: WorkQueue[str]) -> None:
    queue.add_after("later", 3600)
    queue.add_after("sooner", 60)

    assert [await take(queue), now()] == ["sooner", 60]
    assert [await take(queue), now()] == ["later", 3600]


async def test_of_two_delays_the_shorter_counts(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 60)
    queue.add_after("a", 3600)

    await take(queue)

    assert (now(), queue.delayed) == (60, 0)


async def test_work_that_begins_early_cancels_the_delay(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 60)
    queue.add("a")

    queue.done(await take(queue))

    assert (now(), queue.delayed) == (0, 0)


async def test_time_the_loop_did_not_see_brings_delayed_keys_forward(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 3600)

    queue.shift(3000)

    await take(queue)
    assert now() == 600


async def test_a_flood_in_one_lane_delays_another_lane_by_a_few_keys() -> None:
    queue = WorkQueue[tuple[str, int]](random=Random(1), lane=lambda key: key[0])
    for number in range(1000):
        queue.add(("noisy", number))
    queue.add(("quiet", 0))

    handed_out = [await queue.get() for _ in range(LONGEST_RUN + 1)]

    assert ("quiet", 0) in handed_out


async def test_keys_of_a_lane_are_returned_in_short_runs() -> None:
    queue = WorkQueue[tuple[str, int]](random=Random(1), lane=lambda key: key[0])
    for number in range(LONGEST_RUN + 2):
        queue.add(("a", number))
        queue.add(("b", number))

    handed_out = [await queue.get() for _ in range(2 * LONGEST_RUN + 4)]

    lanes = [key[0] for key in handed_out if key is not None]
    assert lanes == ["a"] * LONGEST_RUN + ["b"] * LONGEST_RUN + ["a"] * 2 + ["b"] * 2


async def test_keys_that_are_added_later_overtake_deferred_ones_which_still_have_their_turns() -> None:
    queue = WorkQueue[str](random=Random(1))
    for number in range(8):
        queue.add(f"old-{number}")

    queue.defer()
    for number in range(5):
        queue.add(f"new-{number}")
    queue.add("old-7")

    handed_out = [await queue.get() for _ in range(13)]
    assert handed_out[:8] == ["new-0", "new-1", "new-2", "old-0", "new-3", "new-4", "old-7", "old-1"]
    assert handed_out[8:] == [f"old-{number}" for number in range(2, 7)]
    assert len(queue) == 0


async def test_closed_queue_drops_deferred_keys(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.defer()

    queue.close()

    assert await queue.get() is None


async def test_a_key_that_always_comes_back_does_not_starve_the_others(queue: WorkQueue[str]) -> None:
    others = {f"quiet-{number}" for number in range(100)}
    queue.add("noisy")
    for key in others:
        queue.add(key)

    seen = set()
    for _ in range(103):
        key = await take(queue)
        seen.add(key)
        queue.add("noisy")
        queue.done(key)

    assert others < seen


async def test_delays_grow_with_each_failure_and_reset_on_success(queue: WorkQueue[str]) -> None:
    delays = [queue.retry("a") for _ in range(4)]
    assert all(0.0025 * 2**n <= delay <= 0.005 * 2**n for n, delay in enumerate(delays))

    queue.forget("a")

    assert queue.retry("a") <= 0.005


async def test_a_poison_key_is_slowed_and_its_own_changes_cannot_hurry_it(queue: WorkQueue[str]) -> None:
    for _ in range(5):
        queue.retry("a")
    assert queue.quarantined == 1

    for _ in range(100):
        queue.add("a")
    await take(queue)

    assert 5 <= now() <= 10


async def test_closed_queue_returns_no_key(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_after("later", 60)

    queue.close()
    queue.add("too late")

    assert await queue.get() is None
    assert queue.delayed == 0


async def test_closing_wakes_all_waiting_workers(queue: WorkQueue[str]) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)

    queue.close()

    assert await asyncio.gather(*waiting) == [None, None, None]


async def test_a_worker_cancelled_as_a_key_arrives_does_not_take_it_along(queue: WorkQueue[str]) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(1)

    queue.add("a")
    first.cancel()

    assert await second == "a"


async def test_idle_ends_when_the_last_key_is_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    key = await take(queue)
    asyncio.get_running_loop().call_later(5, queue.done, key)

    await queue.idle()

    assert now() == 5


@settings(max_examples=50)
@given(failures=st.integers(1, 10_000), seed=st.integers(0, 100))
def test_every_retry_waits_between_the_bounds(failures: int, seed: int) -> None:
    delay = Quarantine().delay(failures, Random(seed))

    assert 0.0025 <= delay <= 300


@dataclass
class World:
    """Workers and many producers around one queue; records what was added and what was done."""

    random: Random
    queue: WorkQueue[int]
    asked: dict[int, float] = field(default_factory=dict)
    begun: dict[int, float] = field(default_factory=dict)
    active: set[int] = field(default_factory=set)

    async def crowd(self, steps: int) -> None:
        for _ in range(steps):
            key = self.random.randrange(6)
            self.asked[key] = now()
            self.queue.add(key)
            if self.random.random() < 0.3:
                self.queue.add_after(self.random.randrange(6), self.random.random() * 50)
            if self.random.random() < 0.1:
                self.queue.defer()
            await asyncio.sleep(self.random.choice([0, 0, 0.1, 5]))

    async def worker(self) -> None:
        while (key := await self.queue.get()) is not None:
            assert key not in self.active, "one key worked on twice at the same time"
            self.active.add(key)
            self.begun[key] = now()
            await asyncio.sleep(self.random.choice([0, 0.1, 3]))
            if self.random.random() < 0.3:
                self.queue.retry(key)
            else:
                self.queue.forget(key)
            self.active.remove(key)
            self.queue.done(key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(self.worker())
            hurt = group.create_task(self.worker())
            await self.crowd(self.random.randrange(1, 60))
            if self.random.random() < 0.5 and not self.active:
                hurt.cancel()
            await asyncio.sleep(100_000)  # long after the last retry
            assert (self.queue.delayed, self.queue.in_flight, len(self.queue)) == (0, 0, 0)
            self.queue.close()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_no_key_is_ever_lost_or_worked_on_twice_at_once(seed: int) -> None:
    async def main() -> World:
        random = Random(seed)
        quarantine = Quarantine(after=3, backoff=Backoff(first=1.0, limit=20.0), patience=1.0)
        world = World(random, WorkQueue(random=random, lane=lambda key: key % 2, quarantine=quarantine))
        await world.run()
        return world

    world = run_virtual(main(), seed=seed)

    assert all(world.begun[key] >= asked for key, asked in world.asked.items())
