"""A hub under attack, with and without add-ons."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.addons.fleet import AddonFleet

from watchword.testing.fleet import FleetHarness, run_fleet
from watchword.testing.plane import Plane


@pytest.fixture
async def fleet(plane: Plane) -> AsyncIterator[FleetHarness]:
    async with run_fleet(plane) as running:
        yield running


@pytest.fixture
async def addons(fleet: FleetHarness) -> AsyncIterator[AddonFleet]:
    running = await AddonFleet.on(fleet)
    yield running
    await running.close()
