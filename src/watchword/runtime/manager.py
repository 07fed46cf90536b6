"""Starts and stops everything in a process that runs controllers, in order."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any, TypeAlias, TypeVar

import structlog
from msgspec import Struct, field

from watchword.api.meta import ObjectKey, Resource
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.errors import Unreachable, Untrusted
from watchword.kube.watch import WatchOptions
from watchword.runtime.api_server_connection import (
    ApiServerConnection,
    check_cache_readiness,
    leader_only_client,
    register_cache_metrics,
)
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock, SystemClock, watch_for_clock_jumps
from watchword.runtime.controller import Controller
from watchword.runtime.errors import ControllerRuntimeError, UnexpectedExit
from watchword.runtime.event_loop import run_until_stopped
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.informer import DeltaHandler
from watchword.runtime.leader_election import ElectionTiming, LeaderElector
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import ControllerSpec, Observer
from watchword.runtime.status import StatusWriter
from watchword.runtime.work_queue import Quarantine
from watchword.runtime.write_transports import Fence

T = TypeVar("T")
Job: TypeAlias = Callable[[], Awaitable[None]]


class ManagerOptions(Struct, frozen=True):
    """Settings of a process that runs controllers."""

    name: str  # of the program, as a qualified name: the reporter of its events
    identity: str  # of this process, unique among its replicas
    lease: ObjectKey | None = None  # None: a single replica, without leader election
    timing: ElectionTiming = field(default_factory=ElectionTiming)
    drain: timedelta = timedelta(seconds=20)
    health: tuple[str, int] | None = None  # the address of the health endpoints
    stale_after: timedelta = timedelta(minutes=10)
    check_clock_every: timedelta = timedelta(minutes=1)
    follow: WatchOptions | None = None  # the watch options of connections that have none of their own
    quarantine: Quarantine = field(default_factory=Quarantine)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """What every process that runs controllers can be told."""

    identity: str
    elect: bool = True
    health: tuple[str, int] | None = None
    timing: ElectionTiming = dataclasses.field(default_factory=ElectionTiming)
    follow: WatchOptions | None = None  # None: as the manager chooses
    quarantine: Quarantine = dataclasses.field(default_factory=Quarantine)
    metrics: Metrics = dataclasses.field(default_factory=Metrics, compare=False)

    def make_manager(self, name: str, lease: ObjectKey, clock: Clock, random: Random) -> "Manager":
        election = lease if self.elect else None
        options = ManagerOptions(
            name,
            self.identity,
            election,
            self.timing,
            health=self.health,
            follow=self.follow,
            quarantine=self.quarantine,
        )
        return Manager(options, clock=clock, random=random, metrics=self.metrics)


class Manager:
    """Runs controllers over connections: caches first, then leader election, then controllers.

    When any part fails, all parts end and `run` raises.
    """

    def __init__(
        self, options: ManagerOptions, *, clock: Clock, random: Random, metrics: Metrics | None = None
    ) -> None:
        self.options = options
        self.clock = clock
        self.metrics = metrics or Metrics()
        self.health = HealthEndpoints(self.metrics.registry)
        self.fence = Fence(clock, is_open=options.lease is None)
        self.connections: dict[str, ApiServerConnection] = {}
        self.controllers: list[Controller] = []
        self._clients: dict[str, Client] = {}
        self._jobs: dict[str, Job] = {}
        self._observers: dict[Resource, list[DeltaHandler]] = {}
        self._random = random
        self._log: Any = structlog.get_logger("watchword.manager").bind(manager=options.name)

    def connect(
        self, client: Client, *, name: str = "", follow: WatchOptions | None = None, beside: Cache | None = None
    ) -> ApiServerConnection:
        """Add an API server; the one without a name is the main one, and holds the lease.

        Kinds that the cache `beside` it watches already are read from there; that cache must outlive this manager.
        """
        options, follow = self.options, follow or self.options.follow or WatchOptions()
        cache = Cache.of(client, follow, beside=beside)
        guarded = leader_only_client(client, self.fence, cache, self.metrics)
        events = EventRecorder(
            guarded, options.name, options.identity, clock=self.clock, random=self._random, counts=self.metrics
        )
        connection = ApiServerConnection(name, guarded, cache, StatusWriter(guarded, self.clock, cache), events, follow)
        self.connections[name], self._clients[name] = connection, client
        self.health.readiness[f"cache {name}".strip()] = lambda: check_cache_readiness(
            cache, stale_after=options.stale_after
        )
        return connection

    def client_of(self, connection: ApiServerConnection) -> Client:
        """Return the client that a connection was made with, for a manager inside this one."""
        return self._clients[connection.name]

    def add(self, *specs: ControllerSpec | Observer) -> None:
        """Add controllers and observers of the main server; the kinds that they name are watched from the start."""
        caches = {name: connection.cache for name, connection in self.connections.items()}
        for spec in specs:
            if isinstance(spec, Observer):
                self._observers.setdefault(spec.resource, []).append(spec.observe)
                caches[""].watch(spec.resource)
                continue
            controller = Controller(spec, metrics=self.metrics, random=self._random, quarantine=self.options.quarantine)
            controller.subscribe(caches)
            self.controllers.append(controller)

    def add_job(self, name: str, job: Job) -> None:
        self._jobs[name] = job

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until `stop` is set, then end in order; raises `NotLeading`, `UnexpectedExit` or the first error."""
        stop = stop or asyncio.Event()
        try:
            async with AsyncExitStack() as stack:
                if self.options.health is not None:
                    await stack.enter_async_context(serve_health(self.health, *self.options.health))
                await stack.enter_async_context(self._background())
                if await run_until_stopped(stop, self._sync()):
                    await self._lead(stop)
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        finally:
            self.fence.close()
        self._log.info("stopped")

    async def idle(self) -> None:
        while any(len(controller.queue) or controller.queue.in_flight for controller in self.controllers):
            for controller in self.controllers:
                await controller.queue.idle()

    @asynccontextmanager
    async def _background(self) -> AsyncIterator[None]:
        """Run the caches, which start before the controllers, also without leadership, and end after them."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(connection.cache.run(), name=f"cache {name}")
                for name, connection in self.connections.items()
            ]
            if isinstance(self.clock, SystemClock):  # only the system clock jumps by itself
                watching = watch_for_clock_jumps(self.clock, self.options.check_clock_every, self._shift)
                tasks.append(group.create_task(watching, name="clock"))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _sync(self) -> None:
        for connection in self.connections.values():
            await connection.cache.sync()
            register_cache_metrics(connection, self.metrics)
        self._log.info("synced")

    async def _lead(self, stop: asyncio.Event) -> None:
        if self.options.lease is None:
            await self._work(stop)
            return
        elector = LeaderElector(
            self._clients[""],
            self.options.lease,
            self.options.identity,
            self.fence,
            self.clock,
            self._random,
            self.options.timing,
        )
        await elector.run(lambda: self._work(stop), stop=stop)

    async def _work(self, stop: asyncio.Event) -> None:
        recorders = [connection.events for connection in self.connections.values()]
        self.metrics.leading.set(1)
        for resource, observers in self._observers.items():  # one handler, so that each object is decoded once
            self.connections[""].cache.add_handler(resource, *observers)
        try:
            async with asyncio.TaskGroup() as group:
                jobs: dict[str, Job] = {controller.spec.name: controller.run for controller in self.controllers}
                jobs |= {f"events {number}": recorder.run for number, recorder in enumerate(recorders)}
                tasks = [
                    group.create_task(_must_not_end(name, job, stop), name=name)
                    for name, job in (jobs | self._jobs).items()
                ]
                await stop.wait()
                self._log.info("stopping")
                await asyncio.gather(*(controller.drain(self.options.drain) for controller in self.controllers))
                for recorder in recorders:
                    await recorder.flush(timedelta(seconds=2))
                for task in tasks:
                    task.cancel()
        finally:
            self.metrics.leading.set(0)

    def _shift(self, seconds: float) -> None:
        for controller in self.controllers:
            controller.queue.shift(seconds)


async def _must_not_end(name: str, job: Job, stop: asyncio.Event) -> None:
    await job()
    if not stop.is_set():
        raise UnexpectedExit(f"{name} ended unexpectedly")


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to report: ours if there is one, else the first."""
    leaves = list(_leaves(group))
    return next((leaf for leaf in leaves if isinstance(leaf, ControllerRuntimeError)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


FIRST_REQUESTS_BACKOFF = Backoff(first=1.0, limit=30.0)


async def run_first_requests(
    requests: Callable[[], Awaitable[T]], random: Random, metrics: Metrics, health: tuple[str, int] | None = None
) -> T:
    """Wait for the API server and return what the requests return; raises `KubeError` when they are refused.

    The log says why it waits, and so does the health port, where readiness fails until then. `Untrusted` is raised at
    once.
    """
    log: Any = structlog.get_logger("watchword.start")
    problem, failures = "not reached yet", 0
    endpoints = HealthEndpoints(metrics.registry, readiness={"api server": lambda: problem})
    async with AsyncExitStack() as stack:
        if health is not None:
            await stack.enter_async_context(serve_health(endpoints, *health))
        while True:
            try:
                return await requests()
            except Untrusted:
                raise  # waiting does not change a certificate
            except Unreachable as error:
                failures += 1
                problem = str(error)
                pause = FIRST_REQUESTS_BACKOFF.delay(failures, random)
                log.warning("waiting for the API server", error=problem, next_attempt_in=f"{pause:.0f}s")
                await asyncio.sleep(pause)
