"""Installs the kinds that the operator reconciles and that agents keep records in."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from watchword.api.conditions import is_true
from watchword.api.crds import MANAGED_CRDS
from watchword.api.crds.operator import CLUSTER_MANAGER
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from watchword.kube.client import Client
from watchword.operator.application import holds
from watchword.operator.rendering import MANAGED_BY

DEFINITIONS: tuple[Object, ...] = (*MANAGED_CRDS, CLUSTER_MANAGER)
LOOK_AGAIN = 0.1  # seconds
PATIENCE = timedelta(seconds=30)


async def install(client: Client) -> None:
    """Apply the definitions that are missing or older, and wait until their kinds are served."""
    async with asyncio.timeout(PATIENCE.total_seconds()):
        await asyncio.gather(*(_establish(client, definition) for definition in DEFINITIONS))


async def _establish(client: Client, definition: Object) -> None:
    key = ObjectKey.of(definition)
    found = await client.find(CUSTOM_RESOURCE_DEFINITIONS, key)
    if found is None or not holds(found["spec"], definition["spec"]):
        found = await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, manager=MANAGED_BY, force=True)
    while not is_true(found, "Established"):
        await asyncio.sleep(LOOK_AGAIN)
        found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, key)
