"""The site has every page, and every dependency has its paragraph."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_page_can_be_reached_from_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"- ([\w/-]+\.md)$", menu, re.MULTILINE)

    there = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]

    assert sorted(listed) == sorted(there)


def test_every_decision_is_listed_among_the_decisions() -> None:
    listed = (ROOT / "docs" / "adr" / "README.md").read_text()

    assert [page.name for page in (ROOT / "docs" / "adr").glob("0*.md") if f"({page.name})" not in listed] == []


def test_every_dependency_has_a_row_that_says_why() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[><=;\[]", line)[0].strip() for line in project["dependencies"]}
    chosen, _, _ = (ROOT / "docs" / "adr" / "0004-libraries.md").read_text().partition("Refused, and why:")

    assert set(re.findall(r"^\| ([\w-]+) \| ", chosen, re.MULTILINE)) - {"library"} == wanted
