"""A control plane on which discovery is set up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from watchword.testing.findable import FindableHub, a_findable_hub
from watchword.testing.plane import Plane


@pytest.fixture
async def hub(plane: Plane) -> AsyncIterator[FindableHub]:
    async with a_findable_hub(plane) as found:
        yield found
