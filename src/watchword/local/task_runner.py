"""Runs containers of our own image as tasks of this process: a whole fleet costs one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from watchword._structlog import structlog
from watchword.apiserver.node.model import HttpProbe, Launch
from watchword.local.pod_logs import log_to

CommandFunction: TypeAlias = Callable[[Launch, asyncio.Event], Awaitable[None]]
"""Does what the program does under that command, until the event is set."""

KILLED = 137


class RunningTask(Struct):
    """A container that is a task; it is well as long as it runs."""

    task: asyncio.Task[None]
    stop: asyncio.Event
    launch: Launch

    async def wait(self) -> int:
        """Return the exit code once it has ended."""
        await asyncio.wait({self.task})
        if self.task.cancelled():
            return KILLED
        trouble = self.task.exception()
        if trouble is None:
            return 0
        return 1

    def terminate(self) -> None:
        """Terminate it."""
        self.stop.set()

    def kill(self) -> None:
        """End it."""
        self.task.cancel()

    async def probe(self, question: HttpProbe) -> bool:  # noqa: ARG002 - a task needs no probe
        """Return whether it still runs."""
        return not self.task.done()


class TaskRunner(Struct, frozen=True):
    """A `Runner` that knows some commands of the program."""

    commands: Mapping[str, CommandFunction]

    async def start(self, launch: Launch) -> RunningTask:
        """Start one; raises OSError for a command that it does not know."""
        command = self.commands.get(launch.arguments[0] if launch.arguments else "")
        if command is None:
            raise OSError(f"no such command: {launch.arguments[:1]}")
        stop = asyncio.Event()
        work = asyncio.create_task(_run(command, launch, stop), name=f"{launch.pod}/{launch.container}")
        return RunningTask(work, stop, launch)


async def _run(command: CommandFunction, launch: Launch, stop: asyncio.Event) -> None:
    """Run one container; what it logs is its own, a failure above all."""
    log_to(launch.log)
    log: Any = structlog.get_logger("watchword.up").bind(pod=str(launch.pod))
    log.info("container started", command=launch.arguments[0])
    try:
        await command(launch, stop)
    except Exception:
        log.exception("container failed")
        raise
