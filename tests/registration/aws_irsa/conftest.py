"""Fixtures of the driver's hub side."""

from __future__ import annotations

import pytest
from tests.helpers.fleet import FleetHarness
from tests.registration.aws_irsa.aws_fleet import AwsFleet


@pytest.fixture
def aws_fleet(fleet: FleetHarness) -> AwsFleet:
    """A hub on which nothing runs yet, and an empty account."""
    return AwsFleet(fleet)
