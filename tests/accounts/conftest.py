"""A hub and clusters with managed service accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.accounts.fleet import AccountsFleet

from watchword.testing.fleet import run_fleet
from watchword.testing.plane import Plane


@pytest.fixture
async def fleet(plane: Plane) -> AsyncIterator[AccountsFleet]:
    async with run_fleet(plane) as harness:
        fleet = AccountsFleet(harness)
        await fleet.start()
        yield fleet
