"""Tasks that work as long as a fleet is up: started again when they fail, stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any, TypeAlias

import structlog
from msgspec import Struct, field

from watchword.kube.request_sender import Backoff

SupervisedTask: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""Runs until the event is set, then ends in order."""

RESTART_BACKOFF = Backoff(first=0.5, limit=30.0)


class Supervisor(Struct):
    """Restarts failed tasks with a delay; `last_errors` contains the reasons meanwhile."""

    random: Random
    last_errors: dict[str, str] = field(default_factory=dict)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def start(self, name: str, work: SupervisedTask) -> None:
        self._tasks[name] = asyncio.create_task(self._supervise(name, work), name=name)

    async def stop(self, grace: timedelta) -> None:
        """Stop all, and cancel those that take too long."""
        self._stop.set()
        tasks = list(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace.total_seconds())
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _supervise(self, name: str, work: SupervisedTask) -> None:
        log: Any = structlog.get_logger("watchword.up").bind(worker=name)
        failures = 0
        while not self._stop.is_set():
            try:
                await work(self._stop)
            except Exception as trouble:
                failures += 1
                self.last_errors[name] = str(trouble) or type(trouble).__name__
                delay = RESTART_BACKOFF.delay(failures, self.random)
                log.exception("failed and is started again", retry_in=round(delay, 1))
                await self._pause(delay)
            else:
                return

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass
