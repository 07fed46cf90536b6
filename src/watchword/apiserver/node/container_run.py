"""Keeps one container running: starts it, probes it, restarts it with backoff."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.meta import Object
from watchword.apiserver.node.model import HttpProbe, Launch, Runner, Running
from watchword.apiserver.serving.model import Now

FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 300.0
FORGIVEN_AFTER = 600.0
"""After so many seconds of running, earlier failures no longer count."""
FIRST_LOOK = 0.1
CANNOT_START = 128

Probe = tuple[HttpProbe, Object]


class ContainerTermination(Struct, frozen=True):
    """How a container ended."""

    exit_code: int
    started_at: datetime
    finished_at: datetime
    reason: str = ""

    @property
    def reason_text(self) -> str:
        return self.reason or ("Completed" if self.exit_code == 0 else "Error")


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


class ContainerPlan(Struct, frozen=True):
    """All that is decided about a container before it runs."""

    launch: Launch
    policy: str
    readiness: Probe | None = None
    liveness: Probe | None = None


class ContainerRun(Struct):
    """One container; `changed` is called whenever `state` is another."""

    plan: ContainerPlan
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
            if self._stopping.is_set() or not is_restart_needed(self.plan.policy, ended.exit_code):
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
            await self._pause(delay)
            self._set(restarts=self.state.restarts + 1)

    async def _run_once(self) -> ContainerTermination:
        started = self.now()
        try:
            process = self._process = await self.runner.start(self.plan.launch)
        except OSError as cause:
            return ContainerTermination(CANNOT_START, started, self.now(), f"StartError: {cause.strerror}")
        if self._stopping.is_set():
            process.terminate()
        self._set(running_since=started, ready=self.plan.readiness is None)
        try:
            async with self._probing(process):
                code = await process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            self._process = None
        return ContainerTermination(code, started, self.now())

    @asynccontextmanager
    async def _probing(self, process: Running) -> AsyncIterator[None]:
        probes = [self._watch_readiness(process), self._watch_liveness(process)]
        tasks = [asyncio.get_running_loop().create_task(probe) for probe in probes]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_readiness(self, process: Running) -> None:
        if self.plan.readiness is None:
            return
        probe_spec, timing = self.plan.readiness
        period = float(timing.get("periodSeconds") or 10)
        failures, pause = 0, FIRST_LOOK
        await asyncio.sleep(float(timing.get("initialDelaySeconds") or 0))
        while True:
            if await process.probe(probe_spec):
                failures = 0
                self._set(ready=True)
            else:
                failures += 1
                if failures >= int(timing.get("failureThreshold") or 3):
                    self._set(ready=False)
            # While it is not ready, it is probed more often, so that it becomes ready soon.
            pause = period if self.state.ready else min(period, pause * 1.5)
            await asyncio.sleep(pause)

    async def _watch_liveness(self, process: Running) -> None:
        if self.plan.liveness is None:
            return
        probe_spec, timing = self.plan.liveness
        period = float(timing.get("periodSeconds") or 10)
        failures = 0
        await asyncio.sleep(max(period, float(timing.get("initialDelaySeconds") or 0)))
        while failures < int(timing.get("failureThreshold") or 3):
            failures = 0 if await process.probe(probe_spec) else failures + 1
            await asyncio.sleep(period)
        process.kill()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _set(self, **changes: Any) -> None:
        changed = replace(self.state, **changes)
        if changed != self.state:
            self.state = changed
            self.changed()
