"""Tables that fit the terminal they are shown on, and are complete when they are not."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

GAP = "   "
_NARROWEST = 8


def render_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Return aligned columns; with a width, the widest columns are shortened until every line fits."""
    widths = [max(len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]
    if width is not None:
        widths = _shrunk(widths, width - len(GAP) * (len(headers) - 1))
    return "".join(_line(row, widths) + "\n" for row in (headers, *rows))


def terminal_width() -> int | None:
    """Return the width of the terminal, None when standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(_cut(cell, size).ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()


def _shrunk(widths: list[int], room: int) -> list[int]:
    shrunk = list(widths)
    while sum(shrunk) > room and max(shrunk) > _NARROWEST:
        shrunk[shrunk.index(max(shrunk))] -= 1
    return shrunk


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
