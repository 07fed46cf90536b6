"""The rows of the report, and the table that they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OURS = "watchword"
FIGURES = ("wall_ms", "cpu_ms", "memory_mib", "requests")
COLUMNS = (
    "benchmark",
    "size",
    "subject",
    "wall ms each",
    "CPU ms each",
    "memory MiB",
    "requests each",
    "wall ratio",
    "CPU ratio",
    "memory ratio",
    "requests ratio",
)


@dataclass(frozen=True)
class ReportRow:
    """What one subject needed for one benchmark; figures that were not measured are None."""

    benchmark: str
    size: str
    subject: str
    wall_ms: float | None = None
    cpu_ms: float | None = None
    memory_mib: float | None = None
    requests: float | None = None

    def figures(self) -> list[float | None]:
        """Return the figures in the order of the columns."""
        return [getattr(self, name) for name in FIGURES]


@dataclass(frozen=True)
class Skipped:
    """A benchmark that was not run with a subject, and why."""

    benchmark: str
    subject: str
    reason: str


@dataclass(frozen=True)
class Circumstances:
    """Where and when a report was made."""

    date: str
    machine: str
    revision: str
    scale: str


def render_report(where: Circumstances, rows: Sequence[ReportRow], skipped: Iterable[Skipped]) -> str:
    """Return the report as Markdown."""
    lines = [
        "# Benchmark report",
        "",
        f"{where.date}; revision {where.revision}; {where.machine}; SCALE={where.scale}.",
        "",
        f"The last four columns divide our figure by that of the subject of the row: below 1, {OURS} needs less.",
        "",
        _line(COLUMNS),
        _line(["---"] * len(COLUMNS)),
        *(_line(_cells(row, _ours_for(row, rows))) for row in rows),
    ]
    left_out = [f"- {one.benchmark}, {one.subject}: {one.reason}" for one in skipped]
    if left_out:
        lines += ["", "Not run:", "", *left_out]
    return "\n".join(lines) + "\n"


def _ours_for(row: ReportRow, rows: Sequence[ReportRow]) -> ReportRow | None:
    same = (one for one in rows if (one.benchmark, one.size, one.subject) == (row.benchmark, row.size, OURS))
    return next(same, None)


def _cells(row: ReportRow, ours: ReportRow | None) -> list[str]:
    measured = [_short(figure) for figure in row.figures()]
    if ours is None or ours is row:
        return [row.benchmark, row.size, row.subject, *measured, *[""] * len(FIGURES)]
    ratios = [_ratio(mine, other) for mine, other in zip(ours.figures(), row.figures(), strict=True)]
    return [row.benchmark, row.size, row.subject, *measured, *ratios]


def _ratio(ours: float | None, other: float | None) -> str:
    return "" if ours is None or not other else f"{ours / other:.2f}"


def _short(figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
