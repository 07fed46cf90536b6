"""A hub with its agents, on whichever control plane is chosen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.helpers.fleet import FleetHarness, run_fleet

from watchword.testing.plane import Plane


@pytest_asyncio.fixture
async def fleet(plane: Plane) -> AsyncIterator[FleetHarness]:
    async with run_fleet(plane) as running:
        yield running
