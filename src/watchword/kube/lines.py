"""The connections of one transport: idle ones are used again, by whoever shows the same credential."""

from __future__ import annotations

import asyncio
import ssl

from watchword.kube.dial import Dialer
from watchword.kube.errors import Unreachable
from watchword.kube.line import Line

IDLE_SECONDS = 60.0  # shorter than the API server's own patience, so that it never closes first


class Lines:
    """Hands out lines; each is given back, whatever became of it."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._idle: list[tuple[float, ssl.SSLContext | None, Line]] = []  # since when, and whose; the oldest first
        self._used: dict[Line, ssl.SSLContext | None] = {}
        self._closed = False

    async def take(self, context: ssl.SSLContext | None) -> Line:
        """Return a line that can be asked; raises `NotConnected`, and `Unreachable` once closed."""
        if self._closed:
            raise Unreachable("the client is closed", maybe_done=False)
        line = self._find_idle(context) or await self._dialer.dial(context)
        self._used[line] = context
        return line

    def give_back(self, line: Line) -> None:
        """Keep a line for the next question, or drop it: an unfinished answer spoils it."""
        context = self._used.pop(line, None)
        if line.is_reusable and not self._closed:
            self._idle.append((asyncio.get_running_loop().time(), context, line))
        else:
            line.abort()

    def close(self) -> None:
        """Drop every line, also those in use."""
        self._closed = True
        for line in (*self._used, *(line for *_, line in self._idle)):
            line.abort()
        self._idle.clear()
        self._used.clear()

    def _find_idle(self, context: ssl.SSLContext | None) -> Line | None:
        self._drop_old()
        for place in range(len(self._idle) - 1, -1, -1):
            _, of, line = self._idle[place]
            if of is context and line.is_reusable:
                del self._idle[place]
                return line
        return None

    def _drop_old(self) -> None:
        limit = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle and (self._idle[0][0] < limit or not self._idle[0][2].is_reusable):
            self._idle.pop(0)[2].abort()
