"""Reads pages that name tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<name>test_\w+)`")


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return the tests that a text names, each as file and function."""
    return [(match["path"], match["name"]) for match in NAMED.finditer(text)]


def missing_tests(text: str) -> list[str]:
    """Return the tests that a text names and that do not exist."""
    return [f"{path}::{name}" for path, name in named_tests(text) if name not in _functions(ROOT / path)]


@cache  # the same file is named up to a hundred times
def _functions(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
