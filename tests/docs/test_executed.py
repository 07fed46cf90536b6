"""The commands of every page work as they are written, in order and in the terminal that the page names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.reader import Reader, environment

from tools.documented_blocks import Block, Page, read_page, read_pages, report

ROOT = Path(__file__).parents[2]
PAGES = {str(page.path.relative_to(ROOT)): page for page in read_pages(ROOT)}
TUTORIAL = "docs/tutorial.md"


def runs_here(block: Block) -> bool:
    return not block.left_out and not block.needs_node


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A person in a checkout after `make setup`; the commands run the sources beside this test."""
    home, checkout = tmp_path / "home", tmp_path / "checkout"
    home.mkdir()
    checkout.mkdir()
    (checkout / ".venv").symlink_to(Path(shutil.which("watchword") or ROOT / ".venv/bin/watchword").parents[1])
    person = Reader(checkout, environment(home, ROOT / "src", os.environ["PATH"]))
    yield person
    person.close()


def files_in(folder: Path) -> list[str]:
    """Return the files in a folder; those behind links belong to others."""
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return [str(path.relative_to(folder)) for path in found]


def test_the_commands_run_the_sources_beside_this_test(reader: Reader) -> None:
    reader.current = dict(reader.fresh)

    said = reader.type(Block(1, "", ('python -c "import watchword; print(watchword.__file__)"',)))

    assert said.strip() == str(ROOT / "src" / "watchword" / "__init__.py")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if any(map(runs_here, page.blocks))])
def test_page_works_from_its_first_command_to_its_last(name: str, reader: Reader, tmp_path: Path) -> None:
    page = PAGES[name]
    if "kubectl" in page.path.read_text() and shutil.which("kubectl", path=reader.fresh["PATH"]) is None:
        pytest.skip("kubectl is not installed")

    reader.prepare(page)
    for block in page.blocks:
        if runs_here(block):
            reader.follow(block)
    reader.close()

    if name == TUTORIAL:  # it says that it leaves nothing
        assert files_in(reader.folder) == []
        assert [found for found in files_in(tmp_path / "home") if not found.startswith(".kube/cache")] == []


def test_report_counts_blocks_and_prints_why_some_are_not_run() -> None:
    lines = list(report(ROOT))

    assert len([line for line in lines if line.startswith("  ")]) == sum(
        bool(block.left_out) for page in PAGES.values() for block in page.blocks
    )


def test_commands_are_told_from_their_output(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "<!-- fleet: --clusters 1 -->\n<!-- planes: hub edge-1 -->\n"
        "<!-- where HOST is: $(hostname) -->\n<!-- before: touch a\ntouch b -->\n"
        "<!-- run: answers y -->\n```console\n$ for x in a b; do\n    ls $x\n  done\na\n$ echo \\\n  c\n```\n\n"
        "<!-- not run: needs a cloud -->\n```bash\nmake it\n```\n"
    )

    shown = ("for x in a b; do\n    ls $x\n  done", "echo \\\n  c")
    host = (("HOST", "$(hostname)"),)
    first = Block(7, "answers y", shown, ("a",), before="touch a\ntouch b", placeholders=host)
    second = Block(17, "", ("make it",), left_out="needs a cloud", placeholders=host)
    assert read_page(path) == Page(path, "--clusters 1", ("hub", "edge-1"), (first, second))
