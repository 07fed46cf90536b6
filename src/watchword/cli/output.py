"""The one way by which commands print: nothing from a server reaches the terminal as a control sequence."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from watchword.api.text import escape_text

LAYOUT = "\n\t"  # the characters with which commands lay out their own text


def echo(text: str | bytes, *, err: bool = False, nl: bool = True) -> None:
    """Print a text of one or many lines; bytes, which are a file's content, as they are."""
    click.echo(escape_text(text, keep=LAYOUT) if isinstance(text, str) else text, err=err, nl=nl)


def echo_line(text: str, *, err: bool = False) -> None:
    click.echo(escape_text(text), err=err)


GAP = "   "
EXPLANATIONS = frozenset({"NOTE", "THEN"})  # last columns that go below their row where they do not fit beside it
SHORTENED = frozenset({"DESCRIPTION", "EXTRA GROUPS", "SUBJECT", "USAGES"})  # what a name or a state never is
INDENT = "  "
_NARROWEST = 8


def render_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Return aligned columns; names, states and explanations are whole at any width."""
    cells = [[escape_text(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (headers, *cells)) for i in range(len(headers))]
    if width is None or _total(widths) <= width:
        return "".join(_line(row, widths) + "\n" for row in (headers, *cells))
    below = len(headers) - 1 if headers[-1] in EXPLANATIONS else len(headers)
    widths = _shrunk(headers[:below], widths[:below], width)
    lines: list[str] = []
    for row in (headers, *cells):
        lines.append(_line(row[:below], widths))
        lines += [f"{INDENT}{text}" for text in row[below:] if row is not headers and text not in ("", "-")]
    return "".join(f"{line}\n" for line in lines)


def terminal_width() -> int | None:
    """Return the width of the terminal, None when standard output is none."""
    if not sys.stdout.isatty():
        return None
    import shutil  # imports every compression, which agents do not need

    return shutil.get_terminal_size().columns


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(_cut(cell, size).ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()


def _shrunk(headers: Sequence[str], widths: Sequence[int], width: int) -> list[int]:
    shrunk = list(widths)
    flexible = [index for index, header in enumerate(headers) if header in SHORTENED]
    while _total(shrunk) > width and any(shrunk[index] > _NARROWEST for index in flexible):
        widest = max(flexible, key=lambda index: shrunk[index])
        shrunk[widest] -= 1
    return shrunk


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
