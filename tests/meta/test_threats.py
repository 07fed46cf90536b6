"""Every attack of the security page has a test that exists, on the control planes that the page names."""

from __future__ import annotations

import ast
import re

import pytest
from tests.meta.named_tests import ROOT, missing_tests, named_tests

PAGE = ROOT / "docs" / "security.md"
ROW = re.compile(
    r"^- (?P<id>T-[A-Z]\d+)(?: \((?P<where>[^)]+)\))? (?P<attack>.+?): (?P<tests>`tests/.+)$", re.MULTILINE
)
UNTESTED = re.compile(r"^- (?P<id>T-N\d+) .+?: (?P<why>.+)$", re.MULTILINE)
HIGHEST = {"A": 12, "D": 10, "R": 9, "I": 13, "G": 8, "M": 9, "P": 12, "S": 5, "H": 4, "F": 10, "N": 4, "W": 9}
PLANE_FIXTURES = {
    "plane", "fleet", "addon_fleet", "cli_fleet", "addons", "hub", "cluster", "private_plane", "private_cluster",
    "running",
}  # fmt: skip
ROWS = {match["id"]: match for match in ROW.finditer(PAGE.read_text())}


def runs_on_both(path: str, name: str) -> bool:
    """Whether a test gets a control plane by a shared fixture, and its file or itself does not limit which."""
    tree = ast.parse((ROOT / path).read_text())
    limits = [node for node in tree.body if isinstance(node, ast.Assign) and "planes(" in ast.unparse(node)]
    own = {node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}  # fixtures of this file alone
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and node.name == name:
            limited = any("planes(" in ast.unparse(mark) for mark in node.decorator_list)
            return bool({arg.arg for arg in node.args.args} & (PLANE_FIXTURES - own)) and not limited and not limits
    return False


def test_no_row_is_missing() -> None:
    expected = {f"T-{letter}{number}" for letter, last in HIGHEST.items() for number in range(1, last + 1)}
    assert {*ROWS, *(match["id"] for match in UNTESTED.finditer(PAGE.read_text()))} == expected


@pytest.mark.parametrize("row", ROWS)
def test_row_names_tests_that_exist(row: str) -> None:
    assert named_tests(ROWS[row]["tests"])
    assert missing_tests(ROWS[row]["tests"]) == []


@pytest.mark.parametrize("row", [row for row, match in ROWS.items() if match["where"] is None])
def test_row_for_both_control_planes_names_a_test_that_runs_on_both(row: str) -> None:
    assert any(runs_on_both(path, name) for path, name in named_tests(ROWS[row]["tests"]))
