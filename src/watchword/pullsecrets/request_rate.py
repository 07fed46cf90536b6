"""Limits how many tokens are asked for in a second, however many pull secrets are due at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestRate:
    """A token bucket: `burst` at once, then `per_second`."""

    per_second: float = 100.0
    burst: int = 100
    _next: float | None = field(default=None, init=False)

    async def wait(self) -> None:
        """Wait for a place; places are given in order."""
        now = asyncio.get_running_loop().time()
        earliest = now - self.burst / self.per_second
        place = max(earliest, earliest if self._next is None else self._next)
        self._next = place + 1 / self.per_second
        if self._next > now:
            await asyncio.sleep(self._next - now)
