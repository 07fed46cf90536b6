"""Serves managed service accounts inside the process of a hub, as long as the add-on is installed there."""

from __future__ import annotations

import asyncio
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from watchword.accounts.hub import controllers as accounts
from watchword.accounts.hub.installation import install
from watchword.accounts.metrics import HubAccountMetrics
from watchword.addons.controllers import AddonParts
from watchword.addons.process import no_definitions
from watchword.api.accounts import ADDON_NAME
from watchword.api.addon import SERVED_IN_HUB, is_served_in_hub
from watchword.api.meta import ObjectKey
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS
from watchword.runtime.api_server_connection import ApiServerConnection
from watchword.runtime.manager import Manager


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
