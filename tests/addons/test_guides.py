"""The guides match the code: every reason is explained, and every shown ClusterRole is the real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs_reasons import PAGES, read_advice
from tools.reasons import read_sources
from watchword.addons.definition import Grant
from watchword.addons.rbac import config_syncer, read_only_reporter, status_writer
from watchword.api import yaml

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "watchword"
UNREPORTED = {"KeyCreated", "AutoApprovedByHubCSRApprovingController"}
"""A step that never lasts, and the reason of an approval."""


@pytest.fixture(scope="module")
def reasons() -> dict[str, set[str]]:
    """Every reason that the code can report, with the modules that do."""
    sources, found = read_sources(SOURCE), dict[str, set[str]]()
    for said in (*sources.conditions(), *sources.events()):
        found.setdefault(said.reason, set()).add(said.module)
    return found


def explained(page: str) -> set[str]:
    named = {reason for reason, _ in read_advice((ROOT / "docs" / page).read_text())}
    return {reason for reason in named if re.fullmatch(r"[A-Z][A-Za-z]+", reason)}


def test_every_reason_is_in_the_troubleshooting_guide(reasons: dict[str, set[str]]) -> None:
    rooms = ("watchword.addons.", "watchword.credentials.certificates.")
    given = {reason for reason, modules in reasons.items() if reason and any(m.startswith(rooms) for m in modules)}

    assert given - UNREPORTED - explained("troubleshooting-addons.md") == set()
    assert len(given) > 35


@pytest.mark.parametrize("page", PAGES)
def test_every_reason_of_a_guide_is_reported(page: str, reasons: dict[str, set[str]]) -> None:
    assert explained(page) - (reasons.keys() - UNREPORTED) == set()


@pytest.mark.parametrize(
    ("name", "grant"),
    [
        pytest.param("read_only_reporter", read_only_reporter(), id="reporter"),
        pytest.param("status_writer", status_writer("report"), id="writer"),
        pytest.param("config_syncer", config_syncer("pull-secret"), id="syncer"),
    ],
)
def test_right_is_as_the_guide_shows_it(name: str, grant: Grant) -> None:
    page = (ROOT / "docs" / "howto" / "addon-rbac.md").read_text()
    shown = re.search(rf"`{name}\([^`]*`:\n\n```yaml\n(.*?)```", page, re.DOTALL)

    assert shown is not None
    assert yaml.load(shown[1])["rules"] == list(grant.rules)


def test_author_of_the_sample_writes_little() -> None:
    lines = (SOURCE / "addons" / "sample" / "hub.py").read_text().splitlines()

    assert len([line for line in lines if line.strip()]) <= 40
