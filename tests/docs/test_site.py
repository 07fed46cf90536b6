"""The site has every page, and needs no other host."""

from __future__ import annotations

import re
from pathlib import Path

from tools.site import LIBRARY, external_resources, remove_public_hosts

ROOT = Path(__file__).parents[2]


def test_every_page_can_be_reached_from_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"- ([\w/-]+\.md)$", menu, re.MULTILINE)

    there = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]

    assert sorted(listed) == sorted(there)


def test_every_decision_is_listed_among_the_decisions() -> None:
    listed = (ROOT / "docs" / "adr" / "README.md").read_text()

    assert [page.name for page in (ROOT / "docs" / "adr").glob("0*.md") if f"({page.name})" not in listed] == []


def test_diagrams_are_drawn_by_a_library_of_the_site() -> None:
    scripts = re.findall(r"^  - (\S+\.js)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    build = (ROOT / "Makefile").read_text()

    assert scripts == ["assets/diagrams.js"]
    assert f'"{LIBRARY.name}"' in (LIBRARY.parent / "diagrams.js").read_text()
    assert build.index("tools.site provide") < build.index("zensical build") < build.index("tools.site complete")


def test_page_that_loads_a_file_from_another_host_is_found(tmp_path: Path) -> None:
    own = '<script src="./assets/a.js"></script><link rel="canonical" href="https://docs.example/"><a href="https://x">'
    (tmp_path / "own.html").write_text(own)
    (tmp_path / "other.html").write_text(
        '<script src="https://unpkg.com/a.js"></script><img src="//img.example/b.png">'
    )

    assert sorted(external_resources(tmp_path)) == [
        "other.html: //img.example/b.png",
        "other.html: https://unpkg.com/a.js",
    ]


def test_theme_keeps_no_address_of_a_public_host(tmp_path: Path) -> None:
    script = tmp_path / "assets" / "javascripts" / "bundle.1.min.js"
    script.parent.mkdir(parents=True)
    script.write_text('load("https://unpkg.com/mermaid@12/dist/mermaid.min.js"),load("https://cdn.jsdelivr.net/x/")')
    assert len(list(external_resources(tmp_path))) == 2

    remove_public_hosts(tmp_path)

    assert list(external_resources(tmp_path)) == []
