"""A hub and clusters whose add-ons get credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.fleet import run_fleet

from watchword.testing.plane import Plane


@pytest.fixture
async def addon_fleet(plane: Plane) -> AsyncIterator[AddonFleet]:
    async with run_addon_fleet(plane) as addon_fleet:
        yield addon_fleet


@pytest.fixture
async def private_addon_fleet(private_plane: Plane) -> AsyncIterator[AddonFleet]:
    """A fleet whose control plane may be restarted."""
    async with run_addon_fleet(private_plane) as addon_fleet:
        yield addon_fleet


@asynccontextmanager
async def run_addon_fleet(plane: Plane) -> AsyncIterator[AddonFleet]:
    async with run_fleet(plane) as running:
        addon_fleet = await AddonFleet.on(running)
        yield addon_fleet
        await addon_fleet.close()
