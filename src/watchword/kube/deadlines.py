"""Interrupts what takes too long; one timer of the loop serves many waits."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self


def is_cancellation_requested() -> bool:
    """Whether `CancelledError` was requested for this task, rather than raised by something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Deadlines:
    """Limits waits in time: `TimeoutError` for one that exceeds its deadline.

    A timer of its own for each wait would cost more than most of the work that it limits, which ends long before.
    As an asynchronous context, it cancels the timer at the end.
    """

    __slots__ = ("_due", "_timer")

    def __init__(self) -> None:
        self._due: dict[DeadlineScope, float] = {}
        self._timer: tuple[asyncio.AbstractEventLoop, float, asyncio.Handle] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer[2].cancel()

    def after(self, seconds: float) -> DeadlineScope:
        return self.at(asyncio.get_running_loop().time() + seconds)

    def at(self, when: float) -> DeadlineScope:
        """Return the context of a wait that may last until then, by the loop's time."""
        return DeadlineScope(self, when)

    def add(self, wait: DeadlineScope, when: float) -> None:
        self._due[wait] = when
        self._arm(asyncio.get_running_loop(), when)

    def remove(self, wait: DeadlineScope) -> None:
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
            wait.interrupt()
        if self._due:
            self._arm(loop, min(self._due.values()))


class DeadlineScope:
    """One wait of `Deadlines`, as an asynchronous context; does what `asyncio.Timeout` does, without its timer."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task", "_when")

    def __init__(self, deadlines: Deadlines, when: float) -> None:
        self._deadlines = deadlines
        self._when = when
        self._expired = False
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0  # requests to cancel the task that are not ours

    def expired(self) -> bool:
        return self._expired

    def lift(self) -> None:
        """Let the rest of the context take as long as it needs."""
        self._deadlines.remove(self)

    def interrupt(self) -> None:
        assert self._task is not None
        self._expired = True
        self._task.cancel()

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a deadline is for a task"
        self._task, self._cancelling = task, task.cancelling()
        self._deadlines.add(self, self._when)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        if not self._expired or self._task is None:
            return
        is_ours = self._task.uncancel() <= self._cancelling  # else the task was cancelled as well
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error
