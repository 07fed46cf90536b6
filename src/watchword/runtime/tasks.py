"""Runs a task until an event is set, or next to a block of code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import Any


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
    """Run a task in the background, and cancel it when the body ends."""
    task = asyncio.create_task(job, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
