"""The site has every page."""

from __future__ import annotations

import re
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
