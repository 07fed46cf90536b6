"""The status of three hundred clusters: what needs attention, and not much more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.cli.doctor import render_results
from watchword.cli.lists import ListRequest
from watchword.cli.status import MAX_HEALTHY_ROWS, describe_findings, render_inventory, summarise
from watchword.health.facts import HubFacts
from watchword.health.finding import Severity, urgent
from watchword.health.hub_rules import HubState, decide_own_findings, decide_table_findings
from watchword.health.inventory import build_inventory
from watchword.health.inventory_rows import Inventory

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MANY = 300


def a_cluster(number: int, *, silent: bool) -> Object:
    until = NOW + timedelta(days=200)
    valid = f"valid from 2026-01-01T00:00:00Z until {until:%Y-%m-%dT%H:%M:%SZ}, to be renewed at 2026-10-01T00:00:00Z"
    said = {
        ConditionType.HUB_ACCEPTED: ("True", ""),
        ConditionType.JOINED: ("True", ""),
        ConditionType.AVAILABLE: ("Unknown", "silent") if silent else ("True", ""),
        ConditionType.CERTIFICATE_ROTATED: ("True", valid),
    }
    rows = [{"type": type_, "status": status, "message": message} for type_, (status, message) in said.items()]
    key = ObjectKey.cluster(f"cluster{number}")
    return MANAGED_CLUSTERS.manifest(key, spec={"hubAcceptsClient": True}, status={"conditions": rows})


def a_fleet(silent: int) -> Inventory:
    numbers = range(1, MANY + 1)
    return build_inventory(
        HubFacts(clusters=[a_cluster(number, silent=number > MANY - silent) for number in numbers]), now=NOW
    )


@pytest.mark.parametrize(
    ("silent", "shown"),
    [
        pytest.param(0, MAX_HEALTHY_ROWS, id="all well"),
        pytest.param(3, MAX_HEALTHY_ROWS, id="three silent"),
        pytest.param(60, 60, id="all that are silent"),
    ],
)
def test_a_terminal_is_shown_what_needs_attention_first_and_not_all_the_rest(silent: int, shown: int) -> None:
    clusters, credentials = render_inventory(a_fleet(silent), NOW, ListRequest("table"), 120).split("\n\n")

    lines = clusters.splitlines()
    assert [line.split()[4] for line in lines[1 : silent + 1]] == ["Failing"] * silent
    assert len(lines) == 1 + shown + 1
    assert lines[-1] == f"and {MANY - shown} more, all well: -o wide shows them"
    assert len(credentials.splitlines()) == 1 + MAX_HEALTHY_ROWS + 1


@pytest.mark.parametrize(
    ("form", "width"), [pytest.param("wide", 200, id="wide"), pytest.param("table", None, id="a pipe")]
)
def test_everything_is_shown_to_those_who_want_it(form: str, width: int | None) -> None:
    page = render_inventory(a_fleet(3), NOW, ListRequest(form), width)

    assert len(page.splitlines()) == 2 * (1 + MANY) + 1
    assert "more, all well" not in page


@pytest.mark.parametrize(
    ("silent", "sentence"),
    [
        pytest.param(0, "300 clusters, 300 credentials: all well", id="well"),
        pytest.param(1, "300 clusters, 300 credentials: 1 cluster to look at", id="one is silent"),
    ],
)
def test_one_line_summarizes_the_fleet(silent: int, sentence: str) -> None:
    assert summarise(a_fleet(silent)) == sentence


def test_check_names_what_needs_attention_and_nothing_else() -> None:
    assert list(describe_findings(decide_table_findings(a_fleet(0)))) == []
    assert list(describe_findings(decide_table_findings(a_fleet(1)))) == [
        "failure: cluster cluster300: silent",
        "  next: watchword doctor --cluster cluster300",
    ]
    unseen = HubFacts(unseen={"clusters": "the server does not let you read them"})
    assert "warning: clusters could not be read: the server does not let you read them" in list(
        describe_findings(decide_own_findings(HubState(unseen, NOW)))
    )


LONG = "a-cluster-with-a-name-of-sixty-three-letters-which-is-the-longest"


def test_names_and_explanations_are_never_cut_at_eighty_columns() -> None:
    waiting = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(LONG), spec={"hubAcceptsClient": False}, status={})
    page = render_inventory(build_inventory(HubFacts(clusters=[waiting]), now=NOW), NOW, ListRequest("table"), 80)

    assert "…" not in page
    assert page.splitlines()[1].split()[:5] == [LONG, "no", "no", "unknown", "Pending"]
    assert " ".join("".join(page.splitlines(keepends=True)[2:]).split()).startswith("has registered: watchword accept")
    assert page.count(LONG) == 2
    assert all(len(line) <= 80 for line in page.splitlines()[2:])


def test_doctor_names_some_of_many_and_where_to_find_the_rest() -> None:
    results = decide_table_findings(a_fleet(60))

    page = render_results(results[:1]).splitlines()

    assert len(results[0].findings) == 60
    assert sum(line.startswith("FAIL") for line in page) == 10
    assert page[-1].strip() == "and 50 more: watchword doctor -o yaml names them all"


def test_what_fails_stands_before_what_waits() -> None:
    waiting = MANAGED_CLUSTERS.manifest(ObjectKey.cluster("a"), spec={})
    expired = a_cluster(1, silent=False)
    expired["status"]["conditions"][-1]["message"] = "valid from 2025-01-01T00:00:00Z until 2026-05-01T00:00:00Z"

    found = urgent(decide_table_findings(build_inventory(HubFacts(clusters=[waiting, expired]), now=NOW)))

    assert [finding.severity for _, finding in found] == [Severity.FAILURE, Severity.WARNING]


@pytest.mark.parametrize("sort_by", ["cluster", "expires", "left"])
def test_tables_that_have_the_column_are_sorted(sort_by: str) -> None:
    page = render_inventory(a_fleet(2), NOW, ListRequest("wide", sort_by=sort_by), None)

    first, credentials = page.split("\n\n")
    names = [line.split()[0] for line in first.splitlines()[1:]]
    by_name = [f"cluster{number}" for number in range(1, MANY + 1)]
    assert names == (by_name if sort_by == "cluster" else [*by_name[-2:], *by_name[:-2]])
    assert len(credentials.splitlines()) == MANY + 1
