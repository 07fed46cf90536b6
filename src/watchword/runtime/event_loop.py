"""Makes event loops for real time, and stops them on signals."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop that runs in real time: uvloop where it is installed, asyncio's own elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


@contextmanager
def stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` on SIGINT and SIGTERM; a second signal has its default effect and ends the process."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def once(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        stop.set()

    for number in signals:
        loop.add_signal_handler(number, once, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


async def run_until_stopped(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Do the work and return True, or cancel it and return False as soon as `stop` is set."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
            return True
        return False
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


@asynccontextmanager
async def running(job: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    task = asyncio.create_task(job, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
