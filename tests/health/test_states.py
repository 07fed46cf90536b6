"""How a credential fares follows from its validity alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from watchword.api.credential_report import CredentialValidity
from watchword.health.states import (
    InventoryHealth,
    decide_authority_health,
    decide_expiring_health,
    decide_renewed_health,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
YEAR = CredentialValidity(START, START + 100 * DAY)
TOLD = CredentialValidity(START, START + 100 * DAY, START + 50 * DAY)


@pytest.mark.parametrize(
    ("judge", "validity", "age", "expected"),
    [
        pytest.param(
            decide_renewed_health, CredentialValidity(), 0, InventoryHealth.UNKNOWN, id="validity is not reported"
        ),
        pytest.param(decide_renewed_health, YEAR, 100, InventoryHealth.EXPIRED, id="expired to the second"),
        pytest.param(decide_renewed_health, YEAR, 85, InventoryHealth.OVERDUE, id="past 80 % and the tolerance"),
        pytest.param(decide_renewed_health, YEAR, 80, InventoryHealth.DUE, id="at 80 %"),
        pytest.param(decide_renewed_health, YEAR, 79.9, InventoryHealth.GOOD, id="before 80 %"),
        pytest.param(decide_renewed_health, TOLD, 49, InventoryHealth.GOOD, id="before the instant it told"),
        pytest.param(decide_renewed_health, TOLD, 50, InventoryHealth.DUE, id="at the instant it told"),
        pytest.param(decide_renewed_health, TOLD, 55, InventoryHealth.OVERDUE, id="long after the instant it told"),
        pytest.param(
            decide_renewed_health,
            CredentialValidity(expires=START + DAY),
            0.9,
            InventoryHealth.GOOD,
            id="only its end is known",
        ),
        pytest.param(decide_authority_health, YEAR, 100, InventoryHealth.EXPIRED, id="an authority that has ended"),
        pytest.param(
            decide_authority_health, YEAR, 10, InventoryHealth.PENDING, id="an authority with ninety days left"
        ),
        pytest.param(decide_authority_health, YEAR, 9, InventoryHealth.GOOD, id="an authority with more"),
        pytest.param(
            decide_expiring_health,
            CredentialValidity(expires=START),
            0,
            InventoryHealth.EXPIRED,
            id="a token whose time has come",
        ),
        pytest.param(decide_expiring_health, CredentialValidity(), 0, InventoryHealth.GOOD, id="a token for ever"),
    ],
)
def test_decide(
    judge: Callable[..., InventoryHealth], validity: CredentialValidity, age: float, expected: InventoryHealth
) -> None:
    assert judge(validity, now=START + age * DAY) is expected
