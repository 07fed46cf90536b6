"""Runs containers of our own image as tasks of this process: a whole fleet costs one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from watchword._structlog import structlog
from watchword.apiserver.node.model import HttpProbe, Launch

CommandFunction: TypeAlias = Callable[[Launch, asyncio.Event], Awaitable[None]]
"""Does what the program does under that command, until the event is set."""

KILLED = 137


@dataclass
class RunningTask:
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
        log: Any = structlog.get_logger("watchword.up").bind(pod=str(self.launch.pod))
        log.error("container failed", exc_info=trouble)
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


@dataclass(frozen=True)
class TaskRunner:
    """A `Runner` that knows some commands of the program."""

    commands: Mapping[str, CommandFunction]

    async def start(self, launch: Launch) -> RunningTask:
        """Start one; raises OSError for a command that it does not know."""
        command = self.commands.get(launch.arguments[0] if launch.arguments else "")
        if command is None:
            raise OSError(f"no such command: {launch.arguments[:1]}")
        stop = asyncio.Event()
        work = asyncio.ensure_future(command(launch, stop))
        assert isinstance(work, asyncio.Task)
        work.set_name(f"{launch.pod}/{launch.container}")
        return RunningTask(work, stop, launch)
