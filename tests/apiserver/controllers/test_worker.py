"""The worker: keys collapse, failures back off, stopping leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from watchword.apiserver.controllers.worker import Worker
from watchword.apiserver.serving.model import ApiError

pytestmark = pytest.mark.timeout(20)


class Work:
    """Records when each key was processed; fails and blocks as configured."""

    def __init__(self, *, failures: int = 0, again: float | None = None) -> None:
        self.seen: list[tuple[str, float]] = []
        self.failures = failures
        self.again = again
        self.gate = asyncio.Event()
        self.gate.set()

    async def sync(self, key: str) -> float | None:
        self.seen.append((key, asyncio.get_running_loop().time()))
        await self.gate.wait()
        if len(self.seen) <= self.failures:
            raise ApiError(409, "Conflict", "somebody was faster")
        return self.again


async def test_many_triggers_cause_one_run_and_a_trigger_meanwhile_one_more() -> None:
    work = Work()
    work.gate.clear()
    worker = Worker("test", work.sync)
    worker.start()
    for _ in range(5):
        worker.enqueue("a")
    await asyncio.sleep(1)  # virtual
    worker.enqueue("a")
    worker.enqueue("a")
    work.gate.set()
    await asyncio.sleep(1)

    assert [key for key, _ in work.seen] == ["a", "a"]
    await worker.stop()


async def test_failures_back_off_and_end() -> None:
    work = Work(failures=3)
    worker = Worker("test", work.sync)
    worker.start()
    worker.enqueue("a")
    await asyncio.sleep(10)  # virtual

    times = [round(time, 3) for _, time in work.seen]
    assert times == [0.0, 0.005, 0.015, 0.035]
    await worker.stop()


async def test_key_that_asks_for_it_is_looked_at_again() -> None:
    work = Work(again=60.0)
    worker = Worker("test", work.sync)
    worker.start()
    worker.enqueue("a")
    await asyncio.sleep(150)  # virtual

    assert [round(time) for _, time in work.seen] == [0, 60, 120]
    await worker.stop()
    await asyncio.sleep(150)
    assert len(work.seen) == 3


async def test_only_so_many_keys_run_at_once() -> None:
    work = Work()
    work.gate.clear()
    worker = Worker("test", work.sync, parallel=2)
    worker.start()
    for key in "abcd":
        worker.enqueue(key)
    await asyncio.sleep(1)  # virtual
    assert [key for key, _ in work.seen] == ["a", "b"]

    work.gate.set()
    await asyncio.sleep(1)
    assert [key for key, _ in work.seen] == ["a", "b", "c", "d"]
    await worker.stop()


async def test_stop_ends_what_runs() -> None:
    work = Work()
    work.gate.clear()
    worker = Worker("test", work.sync)
    worker.enqueue("too early")
    worker.start()
    worker.enqueue("a")
    await asyncio.sleep(1)  # virtual

    await worker.stop()
    worker.enqueue("too late")
    await asyncio.sleep(1)

    assert [key for key, _ in work.seen] == ["a"]
