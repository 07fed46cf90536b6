"""Waiting for one of two things."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def finishes_before(stop: asyncio.Event, work: Awaitable[None]) -> bool:
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
