from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from watchword.testing.errors import Deadlock, VirtualTimeError
from watchword.testing.virtual_time import EPOCH, VirtualClock, VirtualLoop, run_virtual

YEAR = 365 * 24 * 3600.0


async def test_sleeping_a_year_takes_no_time() -> None:
    started = time.monotonic()

    await asyncio.sleep(YEAR)

    assert asyncio.get_running_loop().time() == YEAR
    assert time.monotonic() - started < YEAR


async def test_timers_fire_in_the_order_of_their_instants() -> None:
    seen: list[int] = []

    async def wait(days: int) -> None:
        await asyncio.sleep(days * 86400)
        seen.append(days)

    await asyncio.gather(*(wait(days) for days in (300, 2, 40_000, 1)))

    assert seen == [1, 2, 300, 40_000]


async def test_a_deadline_expires_in_virtual_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()


async def test_the_clock_follows_the_loop_and_its_skew() -> None:
    clock = VirtualClock(asyncio.get_running_loop())

    await asyncio.sleep(90)
    clock.skew = timedelta(minutes=-5)

    assert clock.now() == EPOCH + timedelta(seconds=90) - timedelta(minutes=5)


async def test_waiting_until_an_instant_ends_at_that_instant_even_after_decades() -> None:
    clock = VirtualClock(asyncio.get_running_loop(), datetime(2026, 1, 1, tzinfo=UTC))
    rounds = 0
    for year in range(2027, 2090):
        instant = datetime(year, 3, 1, 1, 2, 3, 456789, tzinfo=UTC)
        while (left := instant - clock.now()) > timedelta(0):
            await asyncio.sleep(left.total_seconds())
            rounds += 1

    assert rounds < 63 * 4


async def test_time_passes_however_short_the_sleep() -> None:
    await asyncio.sleep(1e9)
    before = asyncio.get_running_loop().time()

    await asyncio.sleep(1e-30)

    assert asyncio.get_running_loop().time() > before


async def test_threads_are_replaced_by_doing_the_work_in_place() -> None:
    assert await asyncio.to_thread(lambda: "done") == "done"
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 // 0)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda: asyncio.open_connection("127.0.0.1", 9), id="a connection"),
        pytest.param(lambda: asyncio.start_server(lambda *_: None, "127.0.0.1", 0), id="a server"),
        pytest.param(lambda: asyncio.create_subprocess_exec("true"), id="a process"),
    ],
)
async def test_real_waiting_is_refused_where_it_is_asked_for(use: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(VirtualTimeError, match="real_time"):
        await use()


def test_deadlocked_program_fails_immediately() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtual(main())


def order_of_equal_timers(seed: int | None) -> list[int]:
    async def main() -> list[int]:
        seen: list[int] = []

        async def wait(number: int) -> None:
            await asyncio.sleep(1)
            seen.append(number)

        await asyncio.gather(*(wait(number) for number in range(20)))
        return seen

    return run_virtual(main(), seed=seed)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    assert order_of_equal_timers(7) == order_of_equal_timers(7)
    assert order_of_equal_timers(7) != order_of_equal_timers(8)


def test_randomness_of_the_loop_is_replayable() -> None:
    async def draw() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.random.random()

    assert run_virtual(draw(), seed=3) == run_virtual(draw(), seed=3)


@pytest.mark.real_time
async def test_a_test_marked_real_time_may_use_sockets() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
