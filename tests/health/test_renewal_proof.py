"""Whether a holder uses the credential that was last issued: by its own report, and by audit logs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from watchword.api.credential_report import CREDENTIAL_ID, CredentialUse, CredentialValidity, certificate_id, token_id
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS
from watchword.api.time import rfc3339, rfc3339_micro
from watchword.cli.lists import ListRequest
from watchword.cli.status import describe_findings, render_inventory
from watchword.health.audit_log import CredentialUsage, read_audit_logs
from watchword.health.errors import AuditLogUnreadable
from watchword.health.facts import AccountToken, HubFacts
from watchword.health.hub_rules import decide_table_findings
from watchword.health.inventory import credential_document
from watchword.health.inventory_rows import CredentialRow, Inventory
from watchword.health.renewal_proof import STILL_OLD, UseEvidence, decide_account_use, decide_row_use
from watchword.health.states import InventoryHealth
from watchword.testing.virtual_time import EPOCH

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
USER = "system:open-cluster-management:edge:agent"
OLD, NEW = certificate_id(b"old"), certificate_id(b"new")
ROW = CredentialRow(
    "client certificate",
    "edge",
    "agent of edge",
    USER,
    CredentialValidity(EPOCH, EPOCH + 24 * HOUR),
    InventoryHealth.GOOD,
    renewed=True,
)


def used(*seen: tuple[str, timedelta]) -> CredentialUsage:
    usage = CredentialUsage()
    for credential_id, after in seen:
        usage.observe(USER, credential_id, EPOCH + after)
    return usage


@pytest.mark.parametrize(
    ("reported", "usage", "use"),
    [
        pytest.param("", None, CredentialUse.UNKNOWN, id="nothing is known"),
        pytest.param(NEW, None, CredentialUse.CURRENT, id="the holder reports the new one"),
        pytest.param(OLD, None, CredentialUse.PREVIOUS, id="the holder reports the old one"),
        pytest.param("", used((NEW, HOUR)), CredentialUse.CURRENT, id="the log shows the new one"),
        pytest.param(
            OLD, used((OLD, -HOUR), (NEW, HOUR)), CredentialUse.CURRENT, id="the log is newer than the report"
        ),
        pytest.param(
            NEW, used((NEW, HOUR), (OLD, 2 * HOUR)), CredentialUse.PREVIOUS, id="the log shows the old one last"
        ),
        pytest.param("", used((OLD, -HOUR)), CredentialUse.UNKNOWN, id="no request since the renewal"),
        pytest.param("", CredentialUsage(), CredentialUse.UNKNOWN, id="the log does not name the holder"),
    ],
)
def test_decide_row_use(reported: str, usage: CredentialUsage | None, use: CredentialUse) -> None:
    row = decide_row_use(ROW, UseEvidence(frozenset({NEW}), reported), usage, now=EPOCH + 3 * HOUR)

    assert row.use is use
    assert (row.note == STILL_OLD) is (use is CredentialUse.PREVIOUS)
    assert credential_document(row, EPOCH)["use"] == str(use)


@pytest.mark.parametrize(
    ("age", "health"),
    [
        pytest.param(MINUTE, InventoryHealth.DUE, id="a moment ago: it may still read it"),
        pytest.param(HOUR, InventoryHealth.PENDING, id="an hour ago: it needs attention"),
    ],
)
def test_old_credential_in_use_needs_attention_only_after_a_while(age: timedelta, health: InventoryHealth) -> None:
    row = decide_row_use(ROW, UseEvidence(frozenset({NEW}), OLD), None, now=EPOCH + age)

    assert (row.health, row.note) == (health, STILL_OLD)


def test_worse_news_is_not_hidden() -> None:
    failing = CredentialRow("token", "edge", "agent", USER, ROW.validity, InventoryHealth.FAILING, "the hub refused")

    row = decide_row_use(failing, UseEvidence(frozenset({NEW}), OLD), None, now=EPOCH + HOUR)

    assert (row.health, row.note, row.use) == (InventoryHealth.FAILING, "the hub refused", CredentialUse.PREVIOUS)


def an_event(credential_id: str, *, at: timedelta = timedelta(0), user: str = USER, code: int = 200) -> bytes:
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "verb": "get",
        "user": {"username": user, "groups": ["system:authenticated"], "extra": {CREDENTIAL_ID: [credential_id]}},
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": rfc3339_micro(EPOCH + at),
    }
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


def test_last_use_is_found_in_several_logs_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(an_event(NEW, at=2 * HOUR) + an_event(OLD, at=HOUR))
    (tmp_path / "audit.log.1").write_bytes(an_event(OLD, at=MINUTE) + an_event(NEW, user="system:anonymous"))

    usage = read_audit_logs([tmp_path / "audit.log", tmp_path / "audit.log.1"])

    assert usage.last_of(USER) == (NEW, EPOCH + 2 * HOUR)
    assert usage.last_of("unknown") is None


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="empty"),
        pytest.param(an_event(NEW)[:150], id="cut in the middle"),
        pytest.param(an_event(NEW, code=401), id="refused: this proves no use"),
        pytest.param(an_event("Bearer abc"), id="no id"),
        pytest.param(b'["credential-id"]\n', id="no event"),
        pytest.param(b'{"user": {"extra": {"authentication.kubernetes.io/credential-id": [7]}}}\n', id="a number"),
    ],
)
def test_line_that_proves_nothing_is_passed_over(tmp_path: Path, line: bytes) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line + b"\n" + an_event(token_id("1"), user="other"))

    usage = read_audit_logs([log])

    assert list(usage.uses) == ["other"]


def test_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuditLogUnreadable, match="cannot be read: No such file"):
        read_audit_logs([tmp_path / "missing.log"])


def test_status_says_that_the_old_one_is_still_used() -> None:
    late = decide_row_use(ROW, UseEvidence(frozenset({NEW}), OLD), None, now=EPOCH + HOUR)
    inventory = Inventory((), (), [late], {})

    assert STILL_OLD in render_inventory(inventory, EPOCH + HOUR, ListRequest("table"), 120)
    line, _ = describe_findings(decide_table_findings(inventory))
    assert line == f"warning: client certificate of agent of edge: {STILL_OLD}"


@pytest.mark.parametrize(
    ("seen", "use"),
    [
        pytest.param(token_id("new"), CredentialUse.CURRENT, id="the new token"),
        pytest.param(token_id("old"), CredentialUse.PREVIOUS, id="the old token"),
    ],
)
def test_use_of_an_accounts_token_is_known_by_the_log_of_its_cluster(seen: str, use: CredentialUse) -> None:
    key, user = ObjectKey("edge", "robot"), "system:serviceaccount:agents:robot"
    status = {
        "expirationTimestamp": rfc3339(EPOCH + 24 * HOUR),
        "tokenSecretRef": {"name": "robot", "lastRefreshTimestamp": rfc3339(EPOCH)},
    }
    usage = CredentialUsage()
    usage.observe(user, seen, EPOCH + HOUR)
    facts = HubFacts(
        accounts=[MANAGED_SERVICE_ACCOUNTS.manifest(key, status=status)],
        usage=usage,
        account_tokens={key: AccountToken(user, token_id("new"))},
    )

    row = decide_account_use(facts, facts.accounts[0], now=EPOCH + 2 * HOUR)
    assert row is not None

    assert (row.use, row.subject) == (use, user)
