"""Everything that the steps of bringing up a fleet share."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, TypeAlias

import structlog
from msgspec import Struct
from msgspec import field as struct_field
from msgspec.structs import replace

from watchword.admin.bootstrap_access import BootstrapAccess
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import LEASES
from watchword.apiserver.access.pki_directory import write_private
from watchword.apiserver.instance import InstanceSettings
from watchword.discovery.token_secret import TokenRecord
from watchword.health.hub_observer import HubObserver
from watchword.health.inventory import build_inventory
from watchword.health.inventory_rows import Inventory
from watchword.kube.backoff import Backoff
from watchword.kube.kubeconfig import ContextEntry, Kubeconfig
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.local.cloud import LocalCloud
from watchword.local.control_plane import LocalControlPlane
from watchword.local.data_directory import ControlPlaneAddress, FleetDirectory, FleetLayout, LayoutRequest
from watchword.local.pods import FlagParsers, PodRunner
from watchword.local.trials import CLOUDS
from watchword.local.workloads import WORKLOADS
from watchword.pki.certificates import Certificate, split_bundle
from watchword.runtime.clock import Clock

GRACE = timedelta(milliseconds=800)  # for each of the three to end in order; Ctrl-C takes effect within two seconds
WRITES_AT_ONCE = 8  # clusters that are set up at the same time
RESTART_BACKOFF = Backoff(first=0.5, limit=30.0)

SupervisedTask: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]
"""Runs until the event is set, then ends in order."""


async def end_tasks(tasks: Sequence[asyncio.Task[None]], grace: timedelta) -> None:
    """Wait until tasks have ended, and cancel those that are late."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=grace.total_seconds())
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Supervisor(Struct):
    """Restarts failed tasks with a delay; `last_errors` contains the reasons meanwhile."""

    random: Random
    last_errors: dict[str, str] = struct_field(default_factory=dict)
    _stop: asyncio.Event = struct_field(default_factory=asyncio.Event)
    _tasks: dict[str, asyncio.Task[None]] = struct_field(default_factory=dict)

    def start(self, name: str, work: SupervisedTask) -> None:
        self._tasks[name] = asyncio.create_task(self._supervise(name, work), name=name)

    async def stop(self, grace: timedelta) -> None:
        self._stop.set()
        await end_tasks(list(self._tasks.values()), grace)

    async def _supervise(self, name: str, work: SupervisedTask) -> None:
        log: Any = structlog.get_logger("watchword.up").bind(worker=name)
        failures = 0
        while not self._stop.is_set():
            try:
                await work(self._stop)
            except Exception as error:
                failures += 1
                self.last_errors[name] = str(error) or type(error).__name__
                delay = RESTART_BACKOFF.delay(failures, self.random)
                log.exception("failed and is started again", retry_in=round(delay, 1))
                try:
                    async with asyncio.timeout(delay):
                        await self._stop.wait()
                except TimeoutError:
                    pass
            else:
                return


class UpOptions(Struct, frozen=True):
    """The user's choices."""

    requested: LayoutRequest = struct_field(default_factory=LayoutRequest)
    in_memory: bool = False
    audit: bool = False  # write an audit log for each control plane
    encryption_key_file: Path | None = None  # encrypt Secrets in the data file of each control plane
    leave: bool = False  # end once all is healthy
    patience: timedelta | None = None  # None: as long as it takes


@dataclass
class LocalFleet:
    """One fleet on this machine, from the first step until `close`."""

    folder: FleetDirectory
    layout: FleetLayout
    clock: Clock
    read: FlagParsers
    options: UpOptions
    is_new: bool = False
    hub: LocalControlPlane = field(init=False)
    clusters: list[LocalControlPlane] = field(init=False)
    supervisor: Supervisor = field(default_factory=lambda: Supervisor(SystemRandom()))
    token: TokenRecord | None = None
    access: dict[str, BootstrapAccess] = field(default_factory=dict)  # by cluster: the hub as it found it
    observer: HubObserver | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    running: list[LocalControlPlane] = field(default_factory=list)

    since: datetime = field(init=False)
    cloud: LocalCloud | None = field(init=False)  # where the driver is tried with one

    def __post_init__(self) -> None:
        self.since = self.clock.now()
        trial = CLOUDS.get(self.layout.registration_auth)
        self.cloud = LocalCloud(trial, self.folder.path / trial.name) if trial is not None else None
        self.hub = self._member(self.layout.hub)
        self.clusters = [self._member(address, number) for number, address in enumerate(self.layout.clusters, 1)]

    def _member(self, address: ControlPlaneAddress, number: int = 0) -> LocalControlPlane:
        def agent_environment() -> Mapping[str, str]:
            return self.cloud.agent_environment(address.name, number) if self.cloud is not None and number else {}

        async def handle(request: Request) -> Response:
            return await member.instance.plane.handle(request)

        pods = PodRunner(self.clock, self.read, handle, self.layout.server_port, agent_environment)
        folder = self.folder.path / address.name
        settings = InstanceSettings(
            folder,
            port=address.port,
            in_memory=self.options.in_memory,
            audit_log=folder / "audit.log" if self.options.audit else None,
            encryption_key_file=self.options.encryption_key_file,
            node=WORKLOADS,
            runner=pods,
        )
        member = LocalControlPlane(address.name, settings, self.clock, self.is_new)
        return member

    @property
    def authorities(self) -> tuple[Certificate, ...]:
        return split_bundle(self.hub.instance.material.root_bundle)

    @property
    def hub_observer(self) -> HubObserver:
        assert self.observer is not None, "the hub is followed once it is one"
        return self.observer

    def inventory(self) -> Inventory | None:
        """Return what the hub knows of its fleet; None before it is a hub."""
        return build_inventory(self.observer.facts(), now=self.clock.now()) if self.observer is not None else None

    def lease(self, key: ObjectKey) -> Object | None:
        return self.hub_observer.cache.get(LEASES, key)

    async def start_cloud(self, cloud: LocalCloud) -> None:
        """Start the emulated cloud of the driver, whose tokens the hub accepts."""
        self.stack.push_async_callback(cloud.stop)
        await cloud.start(self.hub.kubeconfig, [member.kubeconfig for member in self.clusters])
        self.hub.settings = replace(self.hub.settings, reviewer=cloud.reviewer)

    def write_kubeconfig(self) -> None:
        members = [self.hub, *self.clusters]
        entries = {member.name: member.entries for member in members}
        config = Kubeconfig(
            {name: server for name, (server, _) in entries.items()},
            {name: user for name, (_, user) in entries.items()},
            {member.name: ContextEntry(member.name, member.name) for member in members},
            self.hub.name,
        )
        write_private(self.folder.kubeconfig, dump_kubeconfig(config))

    async def start_member(self, member: LocalControlPlane) -> None:
        await member.start()
        self.running.append(member)

    async def close(self) -> None:
        """End everything in order: agents while their hub still serves, then the hub; slow parts are killed."""
        members, self.running = list(self.running), []
        await _stop([member for member in members if member is not self.hub])
        await self.supervisor.stop(GRACE)
        await self.stack.aclose()
        await _stop([member for member in members if member is self.hub])


async def _stop(members: Iterable[LocalControlPlane]) -> None:
    """Stop members at the same time; data is safe at every moment, so no member is waited for long."""
    await end_tasks([asyncio.create_task(member.stop()) for member in members], GRACE)


async def for_each(members: Iterable[LocalControlPlane], act: Callable[[LocalControlPlane], Awaitable[Any]]) -> None:
    """Do something for many members, a few at a time; the first failure ends it."""
    limit = asyncio.Semaphore(WRITES_AT_ONCE)

    async def one(member: LocalControlPlane) -> None:
        async with limit:
            await act(member)

    try:
        async with asyncio.TaskGroup() as group:
            for member in members:
                group.create_task(one(member))
    except* Exception as failures:
        raise failures.exceptions[0] from failures
