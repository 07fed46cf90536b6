"""Runs the hub side of managed service accounts as a process of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random, SystemRandom

from watchword.accounts.hub import controllers as accounts
from watchword.accounts.hub.definition import accounts_addon
from watchword.accounts.hub.installation import install
from watchword.accounts.metrics import HubAccountMetrics
from watchword.addons import controllers as addons
from watchword.addons.controllers import AddonParts
from watchword.addons.definition import AddonDefinition
from watchword.addons.process import single_addon_lookup
from watchword.api.accounts import ADDON_NAME
from watchword.kube.client import Client
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
    """Install the agent where the add-on is enabled, follow sets, revoke what is deleted, until asked to stop."""
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
