"""Runs the hub side of managed service accounts as a process of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random, SystemRandom

from msgspec import Struct
from msgspec.structs import replace

from watchword.accounts.hub import controllers as accounts
from watchword.accounts.hub.definition import accounts_addon, install
from watchword.accounts.metrics import HubAccountMetrics
from watchword.addons.definition import AddonDefinition
from watchword.addons.hub import definition_controllers as addons
from watchword.addons.hub.definition_controllers import AddonParts, no_definitions, single_addon_lookup
from watchword.api.accounts import ADDON_NAME
from watchword.api.addon import SERVED_IN_HUB, is_served_in_hub
from watchword.api.meta import ObjectKey
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS
from watchword.kube.client import Client
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.manager import Manager, ManagerOptions
from watchword.runtime.metrics import Metrics


@dataclass(frozen=True)
class AccountsManagerOptions:
    """How the hub side behaves."""

    manager: ManagerOptions = field(
        default_factory=lambda: ManagerOptions(f"watchword.dev/addon-{ADDON_NAME}", ADDON_NAME)
    )
    definition: AddonDefinition = field(default_factory=accounts_addon)
    install: bool = True  # apply kinds and policy; off where another hand does it
    metrics: Metrics = field(default_factory=Metrics, compare=False)
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=SystemRandom)


async def run_accounts_manager(
    client: Client, options: AccountsManagerOptions | None = None, *, stop: asyncio.Event | None = None
) -> None:
    options = options or AccountsManagerOptions()
    if options.install:
        await install(client)
    manager = Manager(options.manager, clock=options.clock, random=options.random, metrics=options.metrics)
    hub = manager.connect(client)
    addons.register_informers(hub.cache, ADDON_NAME)
    accounts.register_own_informers(hub.cache)
    accounts.register_informers(hub.cache)
    metrics = HubAccountMetrics(manager.metrics.registry, now=options.clock.now)
    definitions = single_addon_lookup(options.definition)
    parts = AddonParts(hub.cache, hub.client, hub.events, options.clock, definitions)
    manager.add(*addons.controllers(parts), *accounts.controllers(parts, metrics))
    await manager.run(stop)


class AccountsService(Struct, frozen=True):
    """Runs beside the controllers of a hub and reads from their cache; the hub's add-on controllers run the agent.

    Nothing is watched before the add-on is installed: the hub may not even read Secrets then.
    """

    random: Random
    installs: bool = False  # apply what the controllers need; off where an administrator does it

    async def run(self, manager: Manager, hub: ApiServerConnection) -> None:
        """Start with the add-on's entry in the list of add-ons, and end with it; never returns."""
        if self.installs:
            await install(hub.client, served=SERVED_IN_HUB)
        metrics = HubAccountMetrics(manager.metrics.registry, now=manager.clock.now)
        changed = asyncio.Event()
        hub.cache.add_handler(CLUSTER_MANAGEMENT_ADDONS, lambda _: changed.set())
        while True:
            changed.clear()  # before the look, so that no change is missed while the controllers end
            if _is_installed(hub):
                await self._serve(manager, hub, metrics, changed)
            else:
                await changed.wait()

    async def _serve(
        self, manager: Manager, hub: ApiServerConnection, metrics: HubAccountMetrics, changed: asyncio.Event
    ) -> None:
        within = replace(manager.options, lease=None, health=None)  # leads and serves health as the outer one
        inner = Manager(within, clock=manager.clock, random=self.random, metrics=manager.metrics)
        connection = inner.connect(manager.client_of(hub), beside=hub.cache)
        accounts.register_shared_informers(connection.cache)
        accounts.register_informers(connection.cache)
        parts = AddonParts(connection.cache, connection.client, connection.events, manager.clock, no_definitions)
        inner.add(*accounts.controllers(parts, metrics))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(inner.run(stop))
            while _is_installed(hub):
                changed.clear()
                await changed.wait()
            stop.set()


def _is_installed(hub: ApiServerConnection) -> bool:
    return is_served_in_hub(hub.cache.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(ADDON_NAME)))
