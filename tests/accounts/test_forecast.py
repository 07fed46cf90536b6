"""Tokens of accounts in the forecast: one that is not renewed needs attention before it expires."""

from __future__ import annotations

from datetime import timedelta

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.health.facts import HubFacts
from watchword.health.inventory import build_inventory, forecast_expiry
from watchword.health.states import InventoryHealth
from watchword.testing.virtual_time import EPOCH

HOUR = timedelta(hours=1)


def an_account(*, rotates: bool) -> Object:
    scheduled = {"type": ConditionType.ROTATION_SCHEDULED, "status": "True" if rotates else "False", "reason": "R"}
    status: Object = {
        "expirationTimestamp": rfc3339(EPOCH + 10 * HOUR),
        "tokenSecretRef": {"name": "robot", "lastRefreshTimestamp": rfc3339(EPOCH)},
        "conditions": [scheduled],
    }
    if rotates:
        status["nextRenewalTimestamp"] = rfc3339(EPOCH + 7 * HOUR)
    return MANAGED_SERVICE_ACCOUNTS.manifest(ObjectKey("edge-1", "robot"), status=status)


@pytest.mark.parametrize("rotates", [True, False])
def test_token_that_is_not_renewed_requires_action(*, rotates: bool) -> None:
    inventory = build_inventory(HubFacts(accounts=[an_account(rotates=rotates)]), now=EPOCH + HOUR)
    (expiring,) = forecast_expiry(inventory, now=EPOCH + HOUR, within=24 * HOUR)
    assert expiring.requires_action is not rotates
    assert expiring.row.holder == "account robot in edge-1"


def test_account_without_a_token_waits_for_its_agent() -> None:
    account = MANAGED_SERVICE_ACCOUNTS.manifest(ObjectKey("edge-1", "robot"))
    (row,) = build_inventory(HubFacts(accounts=[account]), now=EPOCH).credentials
    assert row.health is InventoryHealth.PENDING
    assert "enabled on its cluster?" in row.note
