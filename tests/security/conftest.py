"""Add-ons on the hub of the fixture `fleet`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.fleet import FleetHarness


@pytest.fixture
async def addons(fleet: FleetHarness) -> AsyncIterator[AddonFleet]:
    running = await AddonFleet.on(fleet)
    yield running
    await running.close()
