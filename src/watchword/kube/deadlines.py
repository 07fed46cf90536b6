"""Interrupts what takes too long; one timer of the loop serves many waits."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Deadlines:
    """Limits waits in time: `TimeoutError` for one that exceeds its deadline.

    A timer of its own for each wait would cost more than most of the work that it limits, which ends long before.
    """

    __slots__ = ("_due", "_timer")

    def __init__(self) -> None:
        self._due: dict[asyncio.Timeout, float] = {}
        self._timer: tuple[asyncio.AbstractEventLoop, float, asyncio.Handle] | None = None

    def after(self, seconds: float) -> DeadlineScope:
        """Return the context of a wait that may take so long."""
        return self.at(asyncio.get_running_loop().time() + seconds)

    def at(self, when: float) -> DeadlineScope:
        """Return the context of a wait that may last until then, by the loop's time."""
        return DeadlineScope(self, when)

    def add(self, wait: asyncio.Timeout, when: float) -> None:
        """Interrupt the wait at that time."""
        self._due[wait] = when
        self._arm(asyncio.get_running_loop(), when)

    def remove(self, wait: asyncio.Timeout) -> None:
        """Let the wait be; the timer stays, for the next one."""
        self._due.pop(wait, None)

    def _arm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None:
            armed_in, armed_for, handle = self._timer
            if armed_in is loop and armed_for <= when:
                return
            handle.cancel()
        self._timer = loop, when, loop.call_at(when, self._interrupt)

    def _interrupt(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time() + 1e-6  # a timer may fire slightly early
        overdue = [wait for wait, when in self._due.items() if when <= now]
        for wait in overdue:
            del self._due[wait]
            wait.reschedule(loop.time())
        if self._due:
            self._arm(loop, min(self._due.values()))


class DeadlineScope:
    """One wait of `Deadlines`, as an asynchronous context."""

    __slots__ = ("_deadlines", "_timeout", "_when")

    def __init__(self, deadlines: Deadlines, when: float) -> None:
        self._deadlines = deadlines
        self._when = when
        self._timeout = asyncio.Timeout(None)

    def expired(self) -> bool:
        """Whether the deadline was exceeded."""
        return self._timeout.expired()

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._deadlines.add(self._timeout, self._when)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.remove(self._timeout)
        await self._timeout.__aexit__(kind, error, traceback)
