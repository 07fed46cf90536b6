"""Every bar of the reliability page is a command that exists, with a figure and a date."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.reliability.__main__ import BARS, parse

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BAR = ("python", "-m", "bench.reliability")


class Row(NamedTuple):
    """One bar as the page states it."""

    promise: str
    command: str
    figure: str
    date: str


def rows() -> list[Row]:
    table = PAGE.read_text().split("|---|---|---|---|\n")[1].split("\n\n")[0]
    return [Row(*(cell.strip() for cell in line.strip("|").split(" | "))) for line in table.splitlines()]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.command)
def test_command_of_a_bar_exists(row: Row) -> None:
    words = shlex.split(row.command.strip("`"))

    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif words[0] == "pytest":
        assert all((ROOT / word).exists() for word in words[1:] if not word.startswith("-"))
    else:
        assert tuple(words[:3]) == BAR
        assert callable(parse(words[3:]).measure)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.command)
def test_bar_has_a_figure_and_the_date_of_its_run(row: Row) -> None:
    assert re.search(r"\d", row.figure)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.date)


def test_every_bar_that_can_be_run_is_on_the_page() -> None:
    named = {words[3] for row in rows() if tuple((words := shlex.split(row.command.strip("`")))[:3]) == BAR}

    assert named == set(BARS)
