"""A stage for every test of ownership."""

from __future__ import annotations

import pytest
from tests.apiserver.fieldmanager.stage import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()
