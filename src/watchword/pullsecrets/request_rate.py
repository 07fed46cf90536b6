"""Limits how many tokens are asked for in a second, however many pull secrets are due at once."""

from __future__ import annotations

import asyncio

from msgspec import Struct


class RequestRate(Struct):
    """Lets `per_second` callers pass in any second, evenly and in order."""

    per_second: float = 100.0
    _next: float = 0.0

    async def wait(self) -> None:
        """Wait until it is this caller's turn; not at all after a pause."""
        now = asyncio.get_running_loop().time()
        turn = max(now, self._next)
        self._next = turn + 1 / self.per_second
        if turn > now:
            await asyncio.sleep(turn - now)
