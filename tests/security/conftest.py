"""A hub under attack, with and without add-ons."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.addons.fleet import AddonFleet

from watchword.testing.membership import Membership, membership
from watchword.testing.plane import Plane


@pytest.fixture
async def fleet(plane: Plane) -> AsyncIterator[Membership]:
    async with membership(plane) as running:
        yield running


@pytest.fixture
async def addons(fleet: Membership) -> AsyncIterator[AddonFleet]:
    running = await AddonFleet.on(fleet)
    yield running
    await running.close()
