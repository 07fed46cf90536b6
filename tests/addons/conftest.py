"""A hub and clusters whose add-ons get credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.addons.fleet import AddonFleet

from watchword.testing.fleet import run_fleet
from watchword.testing.plane import Plane


@pytest.fixture
async def addon_fleet(plane: Plane) -> AsyncIterator[AddonFleet]:
    async with run_fleet(plane) as running:
        addon_fleet = await AddonFleet.on(running)
        yield addon_fleet
        await addon_fleet.close()
