"""Periodic work of a control plane: a failure is logged, shown and tried again, and never ends it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 1.0


class PeriodicTask(Struct, frozen=True):
    """What is done, and how often."""

    name: str
    every: float
    run: Callable[[], Awaitable[None]]


class TaskStatus(Struct):
    """How a task has fared."""

    runs: int = 0
    failures: int = 0
    failed_in_a_row: int = 0

    @property
    def is_healthy(self) -> bool:
        return self.failed_in_a_row == 0


class BackgroundTasks:
    """Runs each task for as long as the control plane; a task that fails is retried with growing pauses."""

    def __init__(self, tasks: Sequence[PeriodicTask]) -> None:
        self._tasks = tasks
        self._running: list[asyncio.Task[None]] = []
        self.status = {task.name: TaskStatus() for task in tasks}

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(self._supervise(task), name=task.name) for task in self._tasks]

    async def stop(self) -> None:
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _supervise(self, task: PeriodicTask) -> None:
        status = self.status[task.name]
        while True:
            await asyncio.sleep(choose_pause(task, status))
            status.runs += 1
            try:
                await task.run()
            except Exception:
                status.failures += 1
                status.failed_in_a_row += 1
                pause = choose_pause(task, status)
                log.exception("background task %s failed and runs again in %.0f seconds", task.name, pause)
            else:
                status.failed_in_a_row = 0


def choose_pause(task: PeriodicTask, status: TaskStatus) -> float:
    """Return the time until the next run: the period, or less after a failure."""
    if status.is_healthy:
        return task.every
    return float(min(task.every, FIRST_RETRY_SECONDS * 2 ** min(status.failed_in_a_row - 1, 20)))
