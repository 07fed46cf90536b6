from __future__ import annotations

import asyncio

import pytest

from watchword.kube.deadlines import Deadlines


async def test_wait_that_takes_too_long_is_interrupted_at_its_deadline() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    began = loop.time()

    with pytest.raises(TimeoutError):
        async with deadlines.after(30):
            await asyncio.sleep(60)

    assert loop.time() - began == pytest.approx(30)


async def test_wait_that_ends_in_time_is_left_alone() -> None:
    deadlines = Deadlines()

    async with deadlines.after(30) as scope:
        await asyncio.sleep(29)
    await asyncio.sleep(60)

    assert not scope.expired()


async def test_no_timer_is_left_at_the_end() -> None:
    loop = asyncio.get_running_loop()
    set_before = len(timers(loop))

    async with Deadlines() as deadlines, deadlines.after(30):
        await asyncio.sleep(0)

    assert len(timers(loop)) == set_before


async def test_many_waits_share_one_timer() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    set_before = len(timers(loop))

    for _ in range(100):
        async with deadlines.after(30):
            await asyncio.sleep(0)

    assert len(timers(loop)) - set_before == 1


async def test_later_wait_has_its_own_deadline_although_the_timer_was_set_for_an_earlier_one() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    async with deadlines.after(30):
        await asyncio.sleep(10)
    began = loop.time()

    with pytest.raises(TimeoutError):
        async with deadlines.after(30):
            await asyncio.Event().wait()

    assert loop.time() - began == pytest.approx(30)


async def test_shorter_deadline_is_kept_beside_a_longer_one() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines()
    began, ended = loop.time(), dict[float, float]()

    async def wait(seconds: float) -> None:
        try:
            async with deadlines.after(seconds):
                await asyncio.Event().wait()
        except TimeoutError:
            ended[seconds] = loop.time() - began

    await asyncio.gather(wait(60), wait(5), wait(30))

    assert ended == {5: pytest.approx(5), 30: pytest.approx(30), 60: pytest.approx(60)}


async def test_cancellation_is_not_mistaken_for_a_deadline() -> None:
    deadlines = Deadlines()

    async def wait() -> None:
        async with deadlines.after(30):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(1)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_task_that_is_cancelled_at_its_deadline_ends_cancelled() -> None:
    deadlines = Deadlines()

    async def wait() -> None:
        async with deadlines.after(30):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    asyncio.get_running_loop().call_later(30, task.cancel)

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_goes_on_after_a_wait_that_was_interrupted() -> None:
    deadlines = Deadlines()

    with pytest.raises(TimeoutError):
        async with deadlines.after(60), deadlines.after(30) as inner:
            await asyncio.Event().wait()
    await asyncio.sleep(60)

    task = asyncio.current_task()
    assert inner.expired()
    assert task is not None
    assert not task.cancelling()


def timers(loop: asyncio.AbstractEventLoop) -> list[asyncio.TimerHandle]:
    """Return the timers that a loop waits for."""
    scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # asked nowhere else
    return [timer for timer in scheduled if not timer.cancelled()]
