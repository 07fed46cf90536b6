"""A control plane on which discovery is set up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.helpers.discoverable_hub import DiscoverableHub, a_discoverable_hub

from watchword.testing.plane import Plane


@pytest.fixture
async def hub(plane: Plane) -> AsyncIterator[DiscoverableHub]:
    async with a_discoverable_hub(plane) as found:
        yield found
