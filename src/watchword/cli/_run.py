"""The one door from the synchronous command line into asynchronous code."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run to completion on the fastest loop there is; an interrupt cancels it and is passed on."""
    import asyncio  # noqa: PLC0415 - help must not pay for it
    import sys  # noqa: PLC0415 - same

    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop  # noqa: PLC0415 - same

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
