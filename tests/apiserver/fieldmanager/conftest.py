"""A harness for every test of ownership."""

from __future__ import annotations

import pytest
from tests.apiserver.fieldmanager.harness import FieldManagerHarness


@pytest.fixture
def harness() -> FieldManagerHarness:
    return FieldManagerHarness()
