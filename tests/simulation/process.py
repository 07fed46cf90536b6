"""A program of the simulation: started, killed at any instant, restarted by its supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.simulation.history import History
from tests.simulation.network import ProcessRun

from watchword.kube.errors import KubeError
from watchword.runtime.errors import ControllerRuntimeError, NotLeading

RESTART_AFTER = 10.0  # seconds, as a node does with a program that ended by itself

Program: TypeAlias = Callable[[ProcessRun], Coroutine[Any, Any, None]]


@dataclass
class SimulatedProcess:
    """Runs a program run after run; `kill` is SIGKILL: no word of farewell reaches a server."""

    name: str
    program: Program
    history: History
    pillars: tuple[str, ...] = ()  # which it serves
    cluster: str = ""  # where it runs; empty: at the hub
    unexpected_exits: list[str] = field(default_factory=list)  # ends that no program should come to
    first_crash: int | None = None  # the first run ends after so many writes
    starts: int = 0
    ends: int = 0  # by itself
    run: ProcessRun | None = None
    _task: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether the program runs now."""
        return self._task is not None

    def start(self) -> ProcessRun:
        """Begin another run; a running one goes on."""
        self._forget_timer()
        if self.run is not None and self._task is not None:
            return self.run
        self.starts += 1
        self.run = ProcessRun(self.name, lambda: self.kill(restart_after=RESTART_AFTER))
        self.run.crash_after, self.first_crash = self.first_crash, None
        self._task = asyncio.get_running_loop().create_task(self.program(self.run), name=self.name)
        self._task.add_done_callback(self._ended)
        return self.run

    def kill(self, *, restart_after: float | None = None) -> None:
        """End the present run at once, and begin another after so many seconds; None: not by itself."""
        self._forget_timer()
        self.history.note(self.name, "killed")
        task, self._task = self._task, None
        if self.run is not None:
            self.run.dead = True
        if task is not None:
            task.cancel()
        if restart_after is not None:
            self._timer = asyncio.get_running_loop().call_later(restart_after, self.start)

    async def end(self) -> None:
        """Kill it for good and wait until nothing of it is left."""
        task = self._task
        self.kill()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._judge(error)
        if task is not self._task:
            return  # killed, and perhaps born again already
        self._task, self.ends = None, self.ends + 1
        if self.run is not None:
            self.run.dead = True
        self.history.note(self.name, "ended by itself")
        self._timer = asyncio.get_running_loop().call_later(RESTART_AFTER, self.start)

    def _judge(self, error: BaseException) -> None:
        if isinstance(error, KubeError | NotLeading | ControllerRuntimeError):
            return  # a program may give up on a server or on leadership; it is started again
        self.unexpected_exits.append(f"{self.name} ended with {type(error).__name__}: {error}")

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
