"""Everything a hub knows becomes rows, what needs attention first."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from watchword.admin.addons import validate_addon_available
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.api.sensitive import Sensitive
from watchword.cli.addon import addon_row
from watchword.discovery.token_secret import TokenRecord
from watchword.discovery.tokens import BootstrapToken
from watchword.health.facts import HubFacts
from watchword.health.formatting import format_renewal
from watchword.health.inventory import (
    build_inventory,
    decide_addon_row,
    decide_cluster_credential_row,
    decide_cluster_row,
    forecast_expiry,
    inventory_document,
)
from watchword.health.inventory_rows import natural_sort_key
from watchword.health.row_findings import inventory_findings
from watchword.health.states import InventoryHealth
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.registration.aws_irsa.options import READY
from watchword.registration.catalog import CATALOG

ACCOUNTS = ACCOUNT_KINDS[0]
Conditions = Mapping[str, tuple[str, str] | str]
NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def said(conditions: Conditions) -> Object:
    rows = []
    for type_, value in conditions.items():
        status, message = (value, "") if isinstance(value, str) else value
        rows.append({"type": type_, "status": status, "reason": "Said", "message": message})
    return {"conditions": rows}


def a_cluster(name: str = "edge", conditions: Conditions | None = None, *, accepted: bool = True) -> Object:
    spec = {"hubAcceptsClient": accepted}
    return MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec=spec, status=said(conditions or {}))


def validity(issued: int, expires: int) -> str:
    return f"valid from {NOW + issued * DAY:%Y-%m-%dT%H:%M:%SZ} until {NOW + expires * DAY:%Y-%m-%dT%H:%M:%SZ}"


GRANTED: Conditions = {ConditionType.HUB_ACCEPTED: "True"}
MEMBER: Conditions = {**GRANTED, ConditionType.JOINED: "True"}
NO_IDENTITY: Conditions = {READY: ("False", "role ocm-hub-1 is missing: create it")}
WELL: Conditions = {**MEMBER, ConditionType.AVAILABLE: "True"}


@pytest.mark.parametrize(
    ("cluster", "health", "note"),
    [
        pytest.param(a_cluster(accepted=False), InventoryHealth.PENDING, "watchword accept edge", id="asks to come in"),
        pytest.param(a_cluster(), InventoryHealth.PENDING, "has not granted", id="accepted a moment ago"),
        pytest.param(
            a_cluster("edge", {ConditionType.HUB_ACCEPTED: ("False", "no policy")}),
            InventoryHealth.PENDING,
            "no policy",
            id="not granted",
        ),
        pytest.param(
            a_cluster("edge", GRANTED), InventoryHealth.PENDING, "has not connected", id="its agent does not work yet"
        ),
        pytest.param(a_cluster("edge", MEMBER), InventoryHealth.FAILING, "has not reported", id="never heard of again"),
        pytest.param(
            a_cluster("edge", {**MEMBER, ConditionType.AVAILABLE: ("Unknown", "silent")}),
            InventoryHealth.FAILING,
            "silent",
            id="silent",
        ),
        pytest.param(a_cluster("edge", WELL), InventoryHealth.GOOD, "", id="well"),
        pytest.param(
            a_cluster("edge", {ConditionType.HUB_ACCEPTED: ("False", "is being created"), **NO_IDENTITY}),
            InventoryHealth.PENDING,
            "accepted: role ocm-hub-1 is missing: create it",
            id="accepted, and AWS refuses its role",
        ),
        pytest.param(
            a_cluster("edge", {**WELL, **NO_IDENTITY}),
            InventoryHealth.FAILING,
            "role ocm-hub-1 is missing: create it",
            id="its role was changed in AWS",
        ),
        pytest.param(
            a_cluster("edge", NO_IDENTITY, accepted=False),
            InventoryHealth.PENDING,
            "not accepted: role ocm-hub-1 is missing: create it",
            id="left, and AWS does not delete its role",
        ),
    ],
)
def test_decide_cluster(cluster: Object, health: InventoryHealth, note: str) -> None:
    row = decide_cluster_row(cluster, [])

    assert row.health is health
    assert note in row.note


def test_a_denied_cluster_is_shown_as_denied_and_needs_no_attention() -> None:
    cluster = a_cluster(accepted=False)
    denied = {"type": ConditionType.HUB_ACCEPTED, "status": "False", "reason": "HubClusterAdminDenied"}
    available = {"type": ConditionType.AVAILABLE, "status": "True"}
    cluster["status"] = {"conditions": [denied, available]}

    row = decide_cluster_row(cluster, [])

    assert (row.health.label, row.available, row.health.needs_attention) == ("Denied", "unknown", False)


def test_an_addon_without_rights_on_the_hub_is_failing() -> None:
    status = said({ConditionType.REGISTRATION_APPLIED: ("False", "the hub may not grant secrets")})
    addon = MANAGED_CLUSTER_ADDONS.manifest(ObjectKey("edge", "logs"), spec={}, status=status)

    assert decide_addon_row(addon).note == "has no rights on the hub: the hub may not grant secrets"
    assert validate_addon_available(addon).endswith("has no rights on the hub: the hub may not grant secrets")
    assert addon_row(addon)[-1] == "no rights: Said"


@pytest.mark.parametrize(
    ("available", "reasons"),
    [
        pytest.param("Unknown", ["AddOnUnknown", "CredentialExpired"], id="a warning does not hide a failure"),
        pytest.param("False", ["AddOnFailing"], id="a failing add-on stands for its credential"),
    ],
)
def test_expired_credential_of_an_addon_is_found(available: str, reasons: list[str]) -> None:
    refreshed = ("True", validity(-9, -1))
    addon = an_addon("token", {ConditionType.TOKEN_REFRESHED: refreshed, ConditionType.ADDON_AVAILABLE: available})

    inventory = build_inventory(HubFacts(clusters=[a_cluster("edge", WELL)], addons=[addon]), now=NOW)

    assert [found.reason for _, found in inventory_findings(inventory) if "add-on" in found.about] == reasons


def test_one_unreadable_object_hides_no_other() -> None:
    unreadable = a_cluster("bad", WELL)
    unreadable["status"] = 7
    account = ACCOUNTS.manifest(
        ObjectKey("edge", "robot"), status={"expirationTimestamp": "2026-06-02T00:00:00Z", "conditions": [7]}
    )

    facts = HubFacts(clusters=[unreadable, a_cluster("good", WELL)], accounts=[account])
    inventory = build_inventory(facts, now=NOW)

    assert [(row.name, row.health.label) for row in inventory.clusters] == [("bad", "Failing"), ("good", "Good")]
    assert sorted(inventory.unreadable) == ["cluster bad"]
    assert "cannot be read" in inventory.unreadable["cluster bad"]
    assert {row.holder for row in inventory.credentials} >= {"agent of good", "account robot in edge"}


def a_request(requester: str, *, addon: str = "", decided: bool = False) -> Object:
    labels = {Label.CLUSTER_NAME: "edge", **({Label.ADDON_NAME: addon} if addon else {})}
    status = {"conditions": [{"type": "Denied"}]} if decided else {}
    key = ObjectKey.cluster("edge-1")
    spec = {"username": requester}
    return CERTIFICATE_SIGNING_REQUESTS.manifest(key, metadata={"labels": labels}, spec=spec, status=status)


@pytest.mark.parametrize(
    ("request_", "health"),
    [
        pytest.param(a_request("system:open-cluster-management:edge:a1"), InventoryHealth.GOOD, id="it renews"),
        pytest.param(a_request("system:bootstrap:abcdef", addon="sample"), InventoryHealth.GOOD, id="of an add-on"),
        pytest.param(a_request("system:bootstrap:abcdef", decided=True), InventoryHealth.GOOD, id="turned away"),
        pytest.param(a_request("system:bootstrap:abcdef"), InventoryHealth.PENDING, id="another key"),
    ],
)
def test_request_of_another_key_for_a_joined_cluster_waits_for_an_administrator(
    request_: Object, health: InventoryHealth
) -> None:
    row = decide_cluster_row(a_cluster("edge", WELL), [request_])

    assert row.health is health
    assert ("watchword rejoin --take-over --cluster-name edge" in row.note) is (health is InventoryHealth.PENDING)


def an_addon(driver: str, conditions: Conditions | None = None) -> Object:
    registrations = [{"type": "kubeClient", "kubeClient": {"driver": driver, "subject": {"user": "somebody"}}}]
    status = {**said(conditions or {}), "registrations": registrations}
    return MANAGED_CLUSTER_ADDONS.manifest(ObjectKey("edge", "sample"), spec={}, status=status)


@pytest.mark.parametrize(
    ("addon", "health"),
    [
        pytest.param(an_addon("token"), InventoryHealth.PENDING, id="no credential yet"),
        pytest.param(
            an_addon("token", {ConditionType.TOKEN_REFRESHED: ("False", "refused")}),
            InventoryHealth.FAILING,
            id="refused",
        ),
        pytest.param(
            an_addon("csr", {ConditionType.CERTIFICATE_ROTATED: "True", ConditionType.ADDON_AVAILABLE: "False"}),
            InventoryHealth.FAILING,
            id="not available",
        ),
        pytest.param(
            an_addon("csr", {ConditionType.CERTIFICATE_ROTATED: "True", ConditionType.ADDON_AVAILABLE: "True"}),
            InventoryHealth.GOOD,
            id="well",
        ),
    ],
)
def test_decide_addon(addon: Object, health: InventoryHealth) -> None:
    assert decide_addon_row(addon).health is health


def a_fleet() -> HubFacts:
    rotated = ConditionType.CERTIFICATE_ROTATED
    token = TokenRecord(BootstrapToken.generate(), expires=NOW + DAY)
    issued = Authority.make("ca", now=NOW).issue_client(
        PrivateKey.generate().public,
        CertificateSubject("system:open-cluster-management:edge2:agent1"),
        now=NOW,
        lifetime=DAY,
    )
    request = CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.cluster("edge2-1"),
        metadata={"labels": {Label.CLUSTER_NAME: "edge2"}},
        spec={"username": "system:bootstrap:abcdef"},
        status={
            "conditions": [{"type": "Approved", "status": "True"}],
            "certificate": base64.b64encode(issued.pem).decode(),
        },
    )
    return HubFacts(
        clusters=[
            a_cluster("edge10", {**WELL, rotated: ("True", validity(-10, 90))}),
            a_cluster("edge2", {**WELL, rotated: ("True", validity(-96, 4))}),
            a_cluster("edge1", {**WELL, rotated: ("True", validity(-10, 80))}),
            a_cluster("edge0", MEMBER),
        ],
        addons=[an_addon("token", {ConditionType.TOKEN_REFRESHED: ("True", validity(-1, 6))})],
        requests=[request],
        tokens=[token],
    )


def test_what_needs_attention_stands_first() -> None:
    inventory = build_inventory(a_fleet(), now=NOW)

    assert [row.name for row in inventory.clusters] == ["edge0", "edge1", "edge2", "edge10"]
    assert [(row.holder, row.health) for row in inventory.credentials] == [
        ("agent of edge2", InventoryHealth.OVERDUE),
        ("agent of edge0", InventoryHealth.UNKNOWN),
        ("joining clusters", InventoryHealth.GOOD),
        ("add-on sample on edge", InventoryHealth.GOOD),
        ("agent of edge1", InventoryHealth.GOOD),
        ("agent of edge10", InventoryHealth.GOOD),
    ]
    assert inventory.credentials[0].subject == "system:open-cluster-management:edge2:agent1"


def test_the_subject_is_known_when_the_request_is_gone() -> None:
    cluster = a_cluster("edge", {**WELL, ConditionType.CERTIFICATE_ROTATED: ("True", validity(-1, 9))})
    cluster["metadata"]["annotations"] = {Annotation.FIRST_KEY: "agent7 0123 2026-05-01T00:00:00Z"}

    row = decide_cluster_credential_row(cluster, [], now=NOW, catalog=CATALOG)

    assert row is not None
    assert row.subject == "system:open-cluster-management:edge:agent7"


def test_forecast_names_what_ends_soon_and_what_that_means() -> None:
    outlooks = forecast_expiry(build_inventory(a_fleet(), now=NOW), now=NOW, within=7 * DAY)

    assert [(each.row.holder, each.renewed_before) for each in outlooks] == [
        ("agent of edge2", False),  # its renewal is overdue
        ("joining clusters", False),
        ("add-on sample on edge", True),
    ]
    assert "edge2 is disconnected from the hub" in outlooks[0].row.consequence
    assert [format_renewal(each.row, NOW) for each in outlooks] == ["16d ago", "-", "within 4d"]


def test_credentials_that_end_in_the_same_second_keep_one_order() -> None:
    ends = NOW + DAY
    tokens = [TokenRecord(BootstrapToken(f"{n}{n}{n}{n}{n}{n}", Sensitive("s" * 16)), expires=ends) for n in "312"]
    addon = an_addon("token", {ConditionType.TOKEN_REFRESHED: ("True", validity(-1, 1))})

    def listed(order: list[TokenRecord]) -> list[str]:
        facts = HubFacts(addons=[addon], tokens=order)
        expiring = forecast_expiry(build_inventory(facts, now=NOW), now=NOW, within=2 * DAY)
        return [each.row.subject for each in expiring]

    first = listed(tokens)
    assert [name[-6:] for name in first[1:]] == ["111111", "222222", "333333"]
    assert all(listed(list(order)) == first for order in itertools.permutations(tokens))


def test_the_document_holds_no_secret_and_every_row() -> None:
    facts = a_fleet()

    document = inventory_document(build_inventory(facts, now=NOW), NOW)

    assert facts.tokens[0].token.secret.reveal() not in repr(document)
    assert {len(document[part]) for part in ("clusters", "credentials")} == {4, 6}
    assert document["credentials"][0]["secondsLeft"] == 4 * 24 * 3600


def test_names_are_sorted_in_natural_order() -> None:
    assert sorted(["c10", "c9", "b", "c1", "c²"], key=natural_sort_key) == ["b", "c1", "c9", "c10", "c²"]
