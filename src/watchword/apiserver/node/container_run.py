"""Keeps one container running: starts it, probes it, restarts it with backoff."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.apiserver.node.model import HttpProbe, Launch, Runner, Running
from watchword.apiserver.serving.model import Now

FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 300.0
FORGIVEN_AFTER = 600.0
"""After so many seconds of running, earlier failures no longer count."""
FIRST_LOOK = 0.1
CANNOT_START = 128


class ContainerTermination(Struct, frozen=True):
    """How a container ended."""

    exit_code: int
    started_at: datetime
    finished_at: datetime
    reason: str


class ContainerState(Struct, frozen=True):
    """What is known of one container; waiting when it neither runs nor has ended."""

    running_since: datetime | None = None
    ended: ContainerTermination | None = None
    waiting: str = "ContainerCreating"
    message: str = ""
    ready: bool = False
    restarts: int = 0
    last: ContainerTermination | None = None


def is_restart_needed(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def choose_backoff(failures: int) -> float:
    """Return how long to wait: the first time not at all, then twice as long each time."""
    return 0.0 if failures <= 1 else min(FIRST_BACKOFF * 2.0 ** min(failures - 2, 10), LONGEST_BACKOFF)


class ContainerRun(Struct):
    """One container; `changed` is called whenever `state` is another."""

    launch: Launch
    policy: str
    readiness: HttpProbe | None
    liveness: HttpProbe | None
    runner: Runner
    now: Now
    changed: Callable[[], None]
    state: ContainerState = field(default_factory=ContainerState)
    _task: asyncio.Task[None] | None = None
    _process: Running | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        """Begin; a second call changes nothing."""
        if self._task is None and self.state.ended is None:
            self._task = asyncio.get_running_loop().create_task(self._supervise())

    async def stop(self, grace: float) -> None:
        self._stopping.set()
        if self._task is None:
            return
        if self._process is not None:
            self._process.terminate()
        done, _ = await asyncio.wait({self._task}, timeout=grace)
        if not done and self._process is not None:
            self._process.kill()
        await asyncio.wait({self._task})
        if not self._task.cancelled() and self._task.exception() is not None:
            raise RuntimeError("the supervisor of a container failed") from self._task.exception()

    async def _supervise(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            ended = await self._run_once()
            long = (ended.finished_at - ended.started_at).total_seconds() > FORGIVEN_AFTER
            failures = 1 if long else failures + 1
            if self._stopping.is_set() or not is_restart_needed(self.policy, ended.exit_code):
                self._set(running_since=None, ended=ended, ready=False)
                return
            delay = choose_backoff(failures)
            self._set(
                running_since=None,
                ready=False,
                waiting="CrashLoopBackOff",
                message=f"back-off {delay:g}s restarting failed container",
                last=ended,
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            self._set(restarts=self.state.restarts + 1)

    async def _run_once(self) -> ContainerTermination:
        started = self.now()
        try:
            process = self._process = await self.runner.start(self.launch)
        except (OSError, ValueError) as cause:  # also an argument that no process can have
            reason = getattr(cause, "strerror", None) or cause
            return ContainerTermination(CANNOT_START, started, self.now(), f"StartError: {reason}")
        if self._stopping.is_set():
            process.terminate()
        self._set(running_since=started, ready=self.readiness is None)
        try:
            async with self._probing(process):
                code = await process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            self._process = None
        return ContainerTermination(code, started, self.now(), "Error" if code else "Completed")

    @asynccontextmanager
    async def _probing(self, process: Running) -> AsyncIterator[None]:
        watches = ((self._watch_readiness, self.readiness), (self._watch_liveness, self.liveness))
        probes = [watch(process, probe) for watch, probe in watches if probe is not None]
        tasks = [asyncio.get_running_loop().create_task(probe) for probe in probes]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_readiness(self, process: Running, probe: HttpProbe) -> None:
        failures, pause = 0, FIRST_LOOK
        await asyncio.sleep(probe.delay)
        while True:
            failures = 0 if await process.probe(probe) else failures + 1
            if failures in (0, probe.failure_threshold):
                self._set(ready=failures == 0)
            # While it is not ready, it is probed more often, so that it becomes ready soon.
            pause = probe.period if self.state.ready else min(probe.period, pause * 1.5)
            await asyncio.sleep(pause)

    async def _watch_liveness(self, process: Running, probe: HttpProbe) -> None:
        failures = 0
        await asyncio.sleep(max(probe.period, probe.delay))
        while failures < probe.failure_threshold:
            failures = 0 if await process.probe(probe) else failures + 1
            await asyncio.sleep(probe.period)
        process.kill()

    def _set(self, **changes: Any) -> None:
        changed = replace(self.state, **changes)
        if changed != self.state:
            self.state = changed
            self.changed()
