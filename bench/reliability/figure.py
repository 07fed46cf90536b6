"""What a bar measured, as a table for people and one line for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """The result of a bar: one line, whether it was reached, and the table behind it."""

    line: str
    reached: bool
    table: str = ""

    def __str__(self) -> str:
        verdict = "reached" if self.reached else "MISSED"
        return "\n".join(part for part in (self.table, f"{verdict}: {self.line}") if part)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as Markdown."""
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
