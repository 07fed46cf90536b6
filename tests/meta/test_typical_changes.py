"""Typical changes start in files that exist and that their names alone lead to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "typical-changes.md"
ROW = re.compile(
    r"^\| (?!you want|-)(?P<change>[^|]+) \| (?P<words>[a-z ]+) \| `(?P<path>[^`]+)`[^|]* \| [^|]+ \|$", re.MULTILINE
)
WORD = re.compile(r"[a-z]+")
FIRST = 3  # how many results a reader looks at
LEAST = 24


@dataclass(frozen=True)
class Change:
    """A row: what a developer wants, the words to search for, and the file to start in."""

    title: str
    words: str
    path: str


def read_changes(text: str) -> list[Change]:
    return [Change(match["change"], match["words"], match["path"]) for match in ROW.finditer(text)]


def find_files(words: str, paths: list[str]) -> list[str]:
    """Return paths as the file finder of an editor does: most words first, then the fewest other words in the path."""
    wanted = WORD.findall(words)

    def order(path: str) -> tuple[int, int, str]:
        own = WORD.findall(str(PurePosixPath(path).with_suffix("")))
        found = sum(any(is_same_word(word, each) for each in own) for word in wanted)
        others = sum(not any(is_same_word(word, each) for word in wanted) for each in own)
        return -found, others, path

    return sorted(paths, key=order)


def is_same_word(one: str, other: str) -> bool:
    """Whether one word begins with the other, as `renew` and `renewal` do."""
    return min(len(one), len(other)) > 2 and (one.startswith(other) or other.startswith(one))


PATHS = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py") if path.name != "__init__.py"]
CHANGES = read_changes(PAGE.read_text())


def test_page_has_a_row_for_each_typical_change() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "`" in line]

    assert len(CHANGES) == len(rows)
    assert len(CHANGES) >= LEAST


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title)
def test_words_of_a_change_find_its_file(change: Change) -> None:
    assert (ROOT / change.path).is_file()
    assert change.path in find_files(change.words, PATHS)[:FIRST]


def test_file_that_has_every_word_and_few_others_is_first() -> None:
    paths = ["src/agent/token.py", "src/hub/bootstrap/token_renewal.py", "src/hub/token.py", "src/hub/tokens/renew.py"]

    assert find_files("hub token renewal", paths) == [
        "src/hub/tokens/renew.py",
        "src/hub/bootstrap/token_renewal.py",
        "src/hub/token.py",
        "src/agent/token.py",
    ]
