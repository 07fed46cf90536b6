"""Watches certificate requests only while one is pending."""

from __future__ import annotations

import asyncio

from watchword.api.meta import ObjectKey
from watchword.drivers.interface import ObtainResult, Pending
from watchword.runtime.cache import Cache
from watchword.runtime.tasks import running


class PendingCsrWatch:
    """Runs a cache while any credential is pending; begins with the one it is made for."""

    def __init__(self, cache: Cache, first: ObjectKey) -> None:
        self._cache = cache
        self._waiting = {first}
        self._changed = asyncio.Event()

    def track_pending(self, secret: ObjectKey, answer: ObtainResult | None) -> None:
        """Record the last result about the credential in a Secret; None when none is wanted any more."""
        if isinstance(answer, Pending):
            self._waiting.add(secret)
        else:
            self._waiting.discard(secret)
        self._changed.set()

    async def run(self) -> None:
        """Watch and pause, for ever."""
        while True:
            async with running(self._cache.run(), "requests"):
                await self._until(waiting=False)
            await self._until(waiting=True)

    async def _until(self, *, waiting: bool) -> None:
        while bool(self._waiting) is not waiting:
            self._changed.clear()
            await self._changed.wait()
