"""Makes event loops for real time, and stops them on signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
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
    """Run a program's main coroutine to its end."""
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
