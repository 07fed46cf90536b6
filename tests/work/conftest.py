"""A managed cluster for every test of works."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.work.work_environment import WorkEnvironment, open_work_environment

from watchword.testing.plane import Plane


@pytest.fixture
async def site(plane: Plane) -> AsyncIterator[WorkEnvironment]:
    """A cluster whose agent is not running yet."""
    async with open_work_environment(plane) as site:
        yield site


@pytest.fixture
async def running(site: WorkEnvironment) -> WorkEnvironment:
    """A cluster whose agent is running."""
    site.start()
    return site
