"""An event loop in virtual time: sleeping a year takes no time, and every run is the same."""

import asyncio
import heapq
import random
import selectors
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from watchword.testing.errors import Deadlock, VirtualTimeError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
# One microsecond: the resolution of a datetime, and far above a float's error after a century.
_RESOLUTION = 1e-6
# How long another thread may take, in real time, to deliver its result to an otherwise idle loop.
_PATIENCE_WITH_THREADS = 10.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs tasks like any loop, but when nothing is ready the time jumps to the next timer.

    With a seed, timers due at the same instant fire in a random order drawn from it; `random` is seeded too, for
    everything that takes its randomness as an argument. Work for other threads is done in place. Sockets and
    processes raise `VirtualTimeError`, and a program in which every task waits raises `Deadlock`.
    """

    def __init__(self, *, seed: int | None = None, drift: float = 0.0) -> None:
        self._now = 0.0
        self._drift = drift  # seconds that each pass of the loop takes
        self._order = None if seed is None else random.Random(seed)  # noqa: S311 - replayable, not secret
        self.random = random.Random(seed or 0)  # noqa: S311 - replayable, not secret
        super().__init__(_VirtualSelector(self._idle, self._busy))
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        return self._now

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back after a virtual delay, which is at least one tick."""
        delay = max(delay, _RESOLUTION) if delay > 0 else delay
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a virtual time; a seed decides between equal times."""
        if self._order is not None:
            when += self._order.random() * _RESOLUTION
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001 - so that cancelling it is counted
        return timer

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run the function in place: threads would make the run unrepeatable."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - passed to the awaiter of the future
            future.set_exception(error)
        return future

    async def _refuse_socket(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a socket")

    async def _refuse_process(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("a process")

    create_connection = create_server = create_unix_server = _refuse_socket
    subprocess_exec = subprocess_shell = _refuse_process

    @property
    def _timers(self) -> list[asyncio.TimerHandle]:
        return self._scheduled  # type: ignore[attr-defined,no-any-return]  # asyncio's timer heap

    def _busy(self) -> None:
        self._now += self._drift

    def _idle(self) -> None:
        if self._timers:
            self._now = max(self._now, self._timers[0].when())


class _Timer(asyncio.TimerHandle):
    """Compares by time alone: a simulated month compares timers a million times."""

    __slots__ = ()

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        return self._when < other._when  # type: ignore[attr-defined,no-any-return]


class _VirtualSelector(selectors.BaseSelector):
    """Holds the loop's own wake-up pipe, refuses everything else, and never waits for a timer."""

    def __init__(self, idle: Callable[[], None], busy: Callable[[], None]) -> None:
        self._real = selectors.DefaultSelector()
        self._idle = idle
        self._busy = busy

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._real.get_map():
            _refuse("a socket")
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map() or {}

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            self._busy()
            return []  # callbacks are ready; the pipe only wakes a loop that waits
        if threading.active_count() > 1 and (events := self._real.select(0)):  # nothing else writes to the pipe
            return events
        if timeout is not None:
            self._idle()
            return []
        return self._wait_for_threads()

    def _wait_for_threads(self) -> list[tuple[selectors.SelectorKey, int]]:
        events = self._real.select(_PATIENCE_WITH_THREADS) if threading.active_count() > 1 else []
        if not events:
            raise Deadlock("every task is waiting and no timer is left: look for an event that is never set")
        return events


class VirtualClock:
    """Wall time that follows a loop: the epoch plus the loop's time, plus a skew that tests may change."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, epoch: datetime = EPOCH, *, skew: timedelta = timedelta(0)
    ) -> None:
        self._loop = loop
        self.epoch = epoch
        self.skew = skew

    def now(self) -> datetime:
        return self.epoch + timedelta(seconds=self._loop.time()) + self.skew


def run_virtual(main: Coroutine[Any, Any, T], *, seed: int | None = None, drift: float = 0.0) -> T:
    """Run in virtual time; with a drift, the time also advances while code runs."""
    with asyncio.Runner(loop_factory=partial(VirtualLoop, seed=seed, drift=drift)) as runner:
        return runner.run(main)


def _refuse(what: str) -> NoReturn:
    raise VirtualTimeError(
        f"{what} cannot be used in virtual time: use an in-process transport, or run in real time "
        "(in a test: mark it real_time)"
    )
