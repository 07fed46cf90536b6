"""Every file that is rendered from code is up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs import rendered
from tools.reasons import Sources, read_sources

ROOT = Path(__file__).parents[2]
REFERENCES = ("cli.md", "api.md", "conditions.md", "rights.md", "metrics.md")
FILES = (
    ".importlinter",
    "src/watchword/dashboard/assets/reasons.json",
    *(f"docs/reference/{name}" for name in REFERENCES),
)
ABOUT_CLUSTERS = (
    "HubAcceptedManagedCluster",
    "ManagedClusterConditionAvailable",
    "ManagedClusterConditionClockSynced",
    "ClusterCertificateRotated",
)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): text for path, text in rendered(ROOT).items()}


@pytest.mark.parametrize("name", FILES)
def test_committed_file_equals_the_rendered_one(name: str, pages: dict[str, str]) -> None:
    assert (ROOT / name).read_text() == pages[name], f"{name} is out of date: run make docs"


def test_every_rendered_file_is_compared(pages: dict[str, str]) -> None:
    assert sorted(pages) == sorted(FILES)


def test_reasons_are_read_from_constants_helpers_tables_and_loops(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "names.py").write_text('class ConditionType:\n    READY = "Ready"\n')
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "promise.py").write_text(EXAMPLE)

    found = {(said.subject, said.reason, said.tone, said.message) for said in Sources(tmp_path).conditions()}

    assert found == {
        ("Ready", "AllThere", "True", "everything is there"),
        ("Ready", "Missing", "False", "waiting for …"),
        ("Ready", "Early", "Unknown", ""),
        ("Ready", "Late", "Unknown", ""),
        ("", "RequestDenied", "", "the hub said no"),
        ("", "RequestFailed", "", "the hub said no"),
    }


EXAMPLE = """
from watchword.api.names import ConditionType
from watchword.credentials.driver import Pending

GOOD = "AllThere"

def judge(thing):
    if thing:
        return Condition.true(ConditionType.READY, GOOD, "everything is there")
    return say("Missing", f"waiting for {thing}")

def say(reason, message):
    return Condition.false(ConditionType.READY, reason, message)

def guess(now):
    reason = "Early" if now else "Late"
    return Condition.unknown(ConditionType.READY, reason, str(now))

def wait():
    for verdict in ("Denied", "Failed"):
        return Pending(f"Request{verdict}", "the hub said no", recheck=1)
"""


def test_every_reason_that_troubleshooting_names_is_one_that_the_code_gives(pages: dict[str, str]) -> None:
    given = set(re.findall(r"`([A-Z][A-Za-z]+)`", pages["docs/reference/conditions.md"]))
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| (`[A-Z][A-Za-z]+`[^|]*) \|", page, re.MULTILINE)

    named = {reason for row in rows for reason in re.findall(r"`([A-Z][A-Za-z]+)`", row)}

    assert named
    assert named - given == set()


def test_every_failure_about_clusters_is_in_troubleshooting() -> None:
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("troubleshooting.md", "troubleshooting-addons.md"))
    said = read_sources(ROOT / "src" / "watchword").conditions()
    bad = {each.reason for each in said if each.tone == "False" and each.subject in ABOUT_CLUSTERS}

    assert {reason for reason in bad if f"`{reason}`" not in pages} == set()
