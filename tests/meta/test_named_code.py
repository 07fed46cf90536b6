"""Every file and function that the documentation names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tools.docs import pages

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "watchword"
SYMBOL = re.compile(r"`(?P<path>[a-z_][\w/]*\.py)::(?P<name>[A-Za-z_][\w.]*)`")
FILE = re.compile(r"`(?P<path>[a-z_][\w/]*/\w+\.(?:py|json|yaml))`")
HISTORY = {"CHANGELOG.md"}  # names files of past versions


def find_file(path: str) -> Path | None:
    """Return a file that a page names from the root of the repository or of the package."""
    return next((folder / path for folder in (ROOT, PACKAGE) if (folder / path).is_file()), None)


@cache
def symbols_of(path: Path) -> set[str]:
    """Return the functions, classes and methods of a module; methods as `Class.method`."""
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    outer = [node for node in ast.parse(path.read_text()).body if isinstance(node, definitions)]
    inner = [(node.name, each) for node in outer for each in node.body if isinstance(each, definitions)]
    return {node.name for node in outer} | {f"{name}.{each.name}" for name, each in inner}


def missing_code(text: str) -> list[str]:
    """Return the files and symbols that a page names and that do not exist."""
    files = [match["path"] for match in FILE.finditer(text) if find_file(match["path"]) is None]
    symbols = [
        match[0]
        for match in SYMBOL.finditer(text)
        if (path := find_file(match["path"])) is None or match["name"] not in symbols_of(path)
    ]
    return files + symbols


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in pages(ROOT) if page.name not in HISTORY])
def test_named_files_and_functions_exist(page: str) -> None:
    assert missing_code((ROOT / page).read_text()) == []


def test_missing_file_and_function_are_found() -> None:
    page = "`processes/hub.py` `hub/gone.py` `pki/keys.py::Pin` `pki/keys.py::Gone` `pki/gone.py::Pin`"

    assert missing_code(page) == ["hub/gone.py", "`pki/keys.py::Gone`", "`pki/gone.py::Pin`"]


def test_walkthrough_names_the_code_of_every_hop() -> None:
    page = (ROOT / "docs" / "join-walkthrough.md").read_text()
    hops = re.split(r"^\d+\. ", page, flags=re.MULTILINE)[1:]

    assert len(hops) == 11
    assert [hop for hop in hops if not SYMBOL.search(hop)] == []
