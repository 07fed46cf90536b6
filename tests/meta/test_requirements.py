"""The ledger of requirements is complete, and the tests it names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs" / "requirements.md"
HIGHEST = {"D": 16, "R": 18, "A": 12, "M": 9, "P": 7, "X": 6}
NOT_YET = "not yet"
ROW = re.compile(r"^\| (?P<id>[A-Z]\d+) \| (?P<text>.+?) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
PARTLY = re.compile(r"<br>\*partly: [^*]+\*$")
NAMED = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<name>test_\w+)`")


def _rows() -> dict[str, str]:
    return {match["id"]: match["tests"].strip() for match in ROW.finditer(LEDGER.read_text())}


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_no_requirement_is_missing() -> None:
    expected = [f"{letter}{number}" for letter, last in HIGHEST.items() for number in range(1, last + 1)]

    assert list(_rows()) == expected


@pytest.mark.parametrize("requirement", _rows())
def test_requirement_names_tests_that_exist(requirement: str) -> None:
    tests = _rows()[requirement]
    if tests == NOT_YET:
        return

    named = [(match["path"], match["name"]) for match in NAMED.finditer(tests)]

    assert named
    rest = PARTLY.sub("", NAMED.sub("", tests)).replace("<br>", "").strip()
    assert rest == "", "only `tests/….py::test_…` joined by <br>, and at the end what is missing: *partly: …*"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in _functions(ROOT / path), f"{path}::{name}"
