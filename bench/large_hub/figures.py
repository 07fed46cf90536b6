"""What one run gave, as a table beside the goals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median and the slowest hundredth of some durations, in seconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, durations: Sequence[float]) -> Spread:
        """Return the spread; not a number without durations."""
        if not durations:
            return cls(math.nan, math.nan)
        ranked = sorted(durations)
        return cls(ranked[(len(ranked) - 1) // 2], ranked[math.ceil(0.99 * len(ranked)) - 1])


@dataclass(frozen=True)
class Figure:
    """One row: what was measured, and the goal where there is one."""

    name: str
    value: float
    unit: str
    goal: float | None = None

    def row(self) -> list[str]:
        """Return the cells of the row."""
        goal = "" if self.goal is None else f"≤ {self.goal:g} {self.unit}"
        met = "" if self.goal is None else ("yes" if self.value <= self.goal else "no")
        return [self.name, f"{_short(self.value)} {self.unit}".strip(), goal, met]


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


COLUMNS = ("figure", "measured", "goal", "met")


def table(figures: Sequence[Figure]) -> str:
    """Return a Markdown table."""
    rows = [list(COLUMNS), ["---"] * len(COLUMNS), *(figure.row() for figure in figures)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
