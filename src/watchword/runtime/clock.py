"""The wall clock, passed as an argument."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import structlog


class Clock(Protocol):
    """Returns the wall-clock time. Waiting is done by the event loop, not by the clock."""

    def now(self) -> datetime: ...


class SystemClock:
    """Reads the clock of this machine, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)


SMALLEST_JUMP = timedelta(seconds=2)


async def watch_for_clock_jumps(clock: Clock, every: timedelta, shift: Callable[[float], None]) -> None:
    """Call `shift` with the seconds by which the wall clock ran ahead of the loop; never returns.

    A clock set back is ignored: timers then fire when they were due, and the reconcile decides again.
    """
    log: Any = structlog.get_logger("watchword.clock")
    loop = asyncio.get_running_loop()
    while True:
        wall, monotonic = clock.now(), loop.time()
        await asyncio.sleep(every.total_seconds())
        ahead = choose_timer_shift(clock.now() - wall, timedelta(seconds=loop.time() - monotonic))
        if ahead:
            log.warning("the clock jumped ahead", seconds=ahead.total_seconds())
            shift(ahead.total_seconds())


def choose_timer_shift(wall: timedelta, monotonic: timedelta) -> timedelta:
    ahead = wall - monotonic
    return ahead if ahead >= SMALLEST_JUMP else timedelta(0)
