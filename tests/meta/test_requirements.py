"""The ledger of requirements is complete, and the tests it names exist."""

from __future__ import annotations

import re

import pytest
from tests.meta.named_tests import NAMED, ROOT, missing_tests, named_tests

LEDGER = ROOT / "docs" / "requirements.md"
HIGHEST = {"D": 16, "R": 18, "A": 12, "M": 9, "P": 7, "X": 20}
NOT_YET = "not yet"
ROW = re.compile(r"^\| (?P<id>[A-Z]\d+) \| (?P<text>.+?) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
PARTLY = re.compile(r"<br>\*partly: [^*]+\*$")


def _rows() -> dict[str, str]:
    return {match["id"]: match["tests"].strip() for match in ROW.finditer(LEDGER.read_text())}


def test_no_requirement_is_missing() -> None:
    expected = [f"{letter}{number}" for letter, last in HIGHEST.items() for number in range(1, last + 1)]

    assert list(_rows()) == expected


@pytest.mark.parametrize("requirement", _rows())
def test_requirement_names_tests_that_exist(requirement: str) -> None:
    tests = _rows()[requirement]
    if tests == NOT_YET:
        return

    assert named_tests(tests)
    rest = PARTLY.sub("", NAMED.sub("", tests)).replace("<br>", "").strip()
    assert rest == "", "only `tests/….py::test_…` joined by <br>, and at the end what is missing: *partly: …*"
    assert missing_tests(tests) == []
