"""The ledger of requirements is complete, and the tests it names exist."""

from __future__ import annotations

import re

import pytest
from tests.meta.named_tests import NAMED, ROOT, missing_tests, named_tests

LEDGER = ROOT / "docs" / "requirements.md"
HIGHEST = {"D": 16, "R": 18, "A": 12, "M": 9, "P": 7, "X": 20}
NOT_YET = "not yet"
ROW = re.compile(r"^- (?P<id>[A-Z]\d+) (?P<text>.+?): (?P<tests>(?:`tests/|not yet).*)$", re.MULTILINE)
STATEMENTS = {"a": 70, "r": 62, "m": 49, "p": 47, "d": 60}
STATEMENT = re.compile(r"^- (?P<id>[a-z]\d+) .+?: (?P<shown>(?:`tests/|\[difference\]).*)$", re.MULTILINE)
DIFFERENCE = re.compile(r"\[difference\]\(differences\.md#([\w-]+)\)")
PARTLY = re.compile(r"<br>\*partly: [^*]+\*$")


def _rows() -> dict[str, str]:
    return {match["id"]: match["tests"].strip() for match in ROW.finditer(LEDGER.read_text())}


def _statements() -> dict[str, str]:
    return {match["id"]: match["shown"] for match in STATEMENT.finditer(LEDGER.read_text())}


def _numbered(highest: dict[str, int]) -> list[str]:
    return [f"{letter}{number}" for letter, last in highest.items() for number in range(1, last + 1)]


def test_no_requirement_is_missing() -> None:
    assert list(_rows()) == _numbered(HIGHEST)


def test_no_statement_of_a_design_is_missing() -> None:
    assert list(_statements()) == _numbered(STATEMENTS)


@pytest.mark.parametrize("design", STATEMENTS)
def test_statement_leads_to_tests_or_to_the_reason_of_a_difference(design: str) -> None:
    headings = re.findall(r"^## (.+)$", (LEDGER.parent / "differences.md").read_text(), re.MULTILINE)
    reasons = {heading.lower().replace(" ", "-") for heading in headings}
    for name, shown in _statements().items():
        if not name.startswith(design):
            continue
        parts = shown.strip().split("<br>")
        assert missing_tests(shown) == [], name
        assert set(DIFFERENCE.findall(shown)) <= reasons, name
        assert all(NAMED.fullmatch(part) or DIFFERENCE.fullmatch(part) for part in parts), name


@pytest.mark.parametrize("requirement", _rows())
def test_requirement_names_tests_that_exist(requirement: str) -> None:
    tests = _rows()[requirement]
    if tests == NOT_YET:
        return

    assert named_tests(tests)
    rest = PARTLY.sub("", NAMED.sub("", tests)).replace("<br>", "").strip()
    assert rest == "", "only `tests/….py::test_…` joined by <br>, and at the end what is missing: *partly: …*"
    assert missing_tests(tests) == []
