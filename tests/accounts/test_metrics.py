"""What the hub and an agent show of managed service accounts at their metrics endpoints."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest
from tests.accounts.fleet import AccountsFleet

from watchword.accounts.metrics import (
    WHERE,
    AccountPhase,
    HubAccountMetrics,
    decide_phase,
    read_token_times,
)
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.credentials.lifecycle import Reason
from watchword.health.inventory_rows import decide_account_row
from watchword.health.states import InventoryHealth
from watchword.kube.errors import Forbidden
from watchword.runtime.metrics import TokenRefreshMetrics
from watchword.runtime.prometheus import CollectorRegistry
from watchword.runtime.raw_objects import Delta
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.virtual_time import EPOCH

HOUR = timedelta(hours=1)
PRESENT, REPORTED = ConditionType.ALL_ACCOUNTS_PRESENT, ConditionType.TOKEN_REPORTED


def an_account(conditions: dict[str, str] | None = None, **metadata: str) -> Object:
    rows = [{"type": name, "status": status, "reason": "R"} for name, status in (conditions or {}).items()]
    status = {
        "conditions": rows,
        "expirationTimestamp": rfc3339(EPOCH + 4 * HOUR),
        "tokenSecretRef": {"name": "robot", "lastRefreshTimestamp": rfc3339(EPOCH - HOUR)},
    }
    return MANAGED_SERVICE_ACCOUNTS.manifest(ObjectKey("edge", "robot"), metadata=dict(metadata), status=status)


@pytest.mark.parametrize(
    ("account", "phase"),
    [
        pytest.param(
            an_account({REPORTED: "True"}, deletionTimestamp=rfc3339(EPOCH)), AccountPhase.REVOKING, id="goes"
        ),
        pytest.param(an_account({PRESENT: "False", REPORTED: "True"}), AccountPhase.FAILED, id="not on the cluster"),
        pytest.param(an_account({PRESENT: "True", REPORTED: "False"}), AccountPhase.FAILED, id="no token"),
        pytest.param(an_account(), AccountPhase.WAITING, id="no agent has said anything"),
        pytest.param(an_account({PRESENT: "True", REPORTED: "True"}), AccountPhase.REPORTED, id="well"),
    ],
)
def test_phase_follows_the_conditions(account: Object, phase: AccountPhase) -> None:
    assert decide_phase(account) is phase


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        pytest.param(an_account({PRESENT: "False"}), InventoryHealth.FAILING, id="not on the cluster"),
        pytest.param(
            an_account({REPORTED: "True"}, deletionTimestamp="2026"), InventoryHealth.PENDING, id="not revoked"
        ),
        pytest.param(an_account(), InventoryHealth.GOOD, id="a token, and no conditions"),
        pytest.param(
            MANAGED_SERVICE_ACCOUNTS.manifest(ObjectKey("edge", "robot")), InventoryHealth.PENDING, id="no agent"
        ),
        pytest.param(an_account({REPORTED: "True"}), InventoryHealth.GOOD, id="well"),
    ],
)
def test_account_is_judged_by_its_phase(account: Object, expected: InventoryHealth) -> None:
    row = decide_account_row(account, now=EPOCH)

    assert row is not None
    assert row.health is expected


def test_age_and_expiry_are_those_of_the_worst_token() -> None:
    registry = CollectorRegistry()
    metrics = HubAccountMetrics(registry, now=lambda: EPOCH)
    raw = orjson.dumps(an_account({REPORTED: "True"}))
    metrics.observe(Delta(MANAGED_SERVICE_ACCOUNTS, ObjectKey("edge", "robot"), None, raw))

    assert registry.get_sample_value("watchword_account_oldest_token_age_seconds") == HOUR.total_seconds()
    assert registry.get_sample_value("watchword_account_soonest_expiry_seconds") == 4 * HOUR.total_seconds()
    assert registry.get_sample_value("watchword_accounts", {"phase": "reported"}) == 1


def test_token_that_is_not_renewed_does_not_count_as_about_to_expire() -> None:
    times = read_token_times(an_account({REPORTED: "True", ConditionType.ROTATION_SCHEDULED: "False"}))
    assert times.expires is None


def test_failed_refresh_is_counted_by_reason_and_error() -> None:
    registry = CollectorRegistry()
    TokenRefreshMetrics(registry, "account", WHERE).failed(Reason.RENEWAL_DUE, Forbidden("no", code=403))
    labels = {"reason": "renewal-due", "error": "Forbidden"}
    assert registry.get_sample_value("watchword_account_refresh_failure_total", labels) == 1


@pytest.mark.planes("embedded")  # other tests have accounts on a shared server
async def test_hub_counts_accounts_and_measures_their_revocation(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    await fleet.shows("watchword_accounts", 1, phase="reported")

    await fleet.client.delete(MANAGED_SERVICE_ACCOUNTS, key)
    await eventually(fleet.client, MANAGED_SERVICE_ACCOUNTS, key, is_gone)
    await fleet.shows("watchword_accounts", 0, phase="reported")
    assert fleet.metrics.registry.get_sample_value("watchword_account_revocation_seconds_count") == 1
