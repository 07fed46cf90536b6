"""Runs the hub controller of one add-on as a process of its own."""

from __future__ import annotations

import asyncio
from random import Random, SystemRandom

from watchword.addons.controllers import AddonParts, controllers, register_informers
from watchword.addons.definition import AddonDefinition, DefinitionLookup
from watchword.api.meta import Object
from watchword.kube.client import Client
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.manager import Manager, ManagerOptions


async def run_addon(
    client: Client,
    definition: AddonDefinition,
    *,
    options: ManagerOptions | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Maintain registrations, rights, deployment and health of an add-on until `stop` is set.

    Give `options` with a lease to run several replicas. Raises what the manager raises.
    """
    clock = clock or SystemClock()
    name = f"watchword.dev/addon-{definition.name}"
    manager = Manager(options or ManagerOptions(name, definition.name), clock=clock, random=random or SystemRandom())
    hub = manager.connect(client)
    register_informers(hub.cache, definition.name, names_roles=any(grant.role for grant in definition.grants))
    parts = AddonParts(hub.cache, hub.client, hub.events, clock, single_addon_lookup(definition))
    manager.add(*controllers(parts))
    await manager.run(stop)


def no_definitions(_: Object) -> AddonDefinition | None:
    """Know no add-on: for controllers that describe none."""
    return None


def single_addon_lookup(definition: AddonDefinition) -> DefinitionLookup:
    """Return the definitions of a process that knows one add-on."""

    def find(addon: Object) -> AddonDefinition | None:
        return definition if addon["metadata"]["name"] == definition.name else None

    return find
