"""The one place where event loops for real work are made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop that runs in real time: uvloop where it is installed, asyncio's own elsewhere."""
    try:
        import uvloop  # noqa: PLC0415 - costs start-up time that `--help` must not pay
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program's main coroutine to its end."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
