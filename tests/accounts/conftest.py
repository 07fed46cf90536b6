"""A hub and clusters with managed service accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.accounts.fleet import AccountsFleet
from tests.helpers.fleet import run_fleet

from watchword.testing.plane import Plane


@pytest.fixture
async def fleet(plane: Plane) -> AsyncIterator[AccountsFleet]:
    async with accounts_fleet(plane) as fleet:
        yield fleet


@pytest.fixture
async def private_fleet(private_plane: Plane) -> AsyncIterator[AccountsFleet]:
    """A fleet whose control plane may be restarted."""
    async with accounts_fleet(private_plane) as fleet:
        yield fleet


@asynccontextmanager
async def accounts_fleet(plane: Plane) -> AsyncIterator[AccountsFleet]:
    async with run_fleet(plane) as harness:
        fleet = AccountsFleet(harness)
        await fleet.start()
        yield fleet
