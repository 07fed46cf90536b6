"""The plan for testing add-ons' tokens is carried out: every line of it names tests that exist."""

from __future__ import annotations

import re

import pytest
from tests.meta.named_tests import ROOT, missing_tests, named_tests

ROW = re.compile(r"^\| (?P<level>unit|integration|end to end) \| (?P<what>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
PLAN = {
    "unit": ("token validation", "error handling", "driver interface"),
    "integration": (
        "add-on registration flow",
        "token refresh when nearing expiration",
        "recovery from ServiceAccount recreation",
        "recovery from token secret deletion",
        "multiple add-ons with different cluster drivers",
    ),
    "end to end": (
        "add-on registration and operations across multiple clusters",
        "token lifecycle management",
        "multiple klusterlets with different add-on registration drivers",
        "cluster over another way to the hub",
    ),
}


def rows() -> list[tuple[str, str, str]]:
    page = (ROOT / "docs" / "testing.md").read_text()
    return [(match["level"], match["what"], match["tests"]) for match in ROW.finditer(page)]


@pytest.mark.parametrize("level", PLAN)
def test_every_line_of_the_plan_is_there(level: str) -> None:
    found = [what for each, what, _ in rows() if each == level]

    assert [line for line, start in zip(found, PLAN[level], strict=True) if not line.startswith(start)] == []


@pytest.mark.parametrize(("level", "what", "tests"), rows())
def test_line_names_tests_that_exist(level: str, what: str, tests: str) -> None:
    assert named_tests(tests), f"{level}: {what}"
    assert missing_tests(tests) == []
