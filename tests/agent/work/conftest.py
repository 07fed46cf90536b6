"""A managed cluster for every test of works."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.agent.work.site import Site, open_site

from watchword.testing.plane import Plane


@pytest.fixture
async def site(plane: Plane) -> AsyncIterator[Site]:
    """A cluster whose agent is not running yet."""
    async with open_site(plane) as site:
        yield site


@pytest.fixture
async def running(site: Site) -> Site:
    """A cluster whose agent is running."""
    site.start()
    return site
