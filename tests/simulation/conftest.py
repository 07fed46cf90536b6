"""What simulations share: control planes that were installed once."""

from __future__ import annotations

import pytest
from tests.simulation.planes import PlaneImages


@pytest.fixture(scope="session")
def images() -> PlaneImages:
    return PlaneImages.make()
