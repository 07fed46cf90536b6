"""What one run gave, as data and as a row of a table."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.rig.meter import Mark

SUBJECT = "subject:"
COLUMNS = ("workload", "subject", "size", "wall s", "objects/s", "requests/object", "failed", "CPU s", "peak RSS MiB")


@dataclass(frozen=True)
class Result:
    """One run of one workload with one subject."""

    workload: str
    subject: str
    variant: str
    parameters: Mapping[str, int]
    objects: int
    wall_seconds: float  # from the first request of the trigger to the event that completes the work
    trigger_seconds: float  # how long sending the trigger took: a lower bound for every subject
    settle_seconds: float  # from done until the subject was quiet
    requests: Mapping[str, int]  # of the subject until it was quiet, by cluster
    requests_by_action: Mapping[str, int]
    failed_requests: Mapping[str, int]
    subject_cpu_seconds: float
    subject_peak_mib: float
    cpu_seconds: Mapping[str, float]  # of everything, API servers and etcd included
    memory_mib: Mapping[str, tuple[float, float]]  # of everything: before the trigger, and at its peak
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def requests_per_object(self) -> float:
        """The figure that does not depend on how busy the machine is."""
        return sum(self.requests.values()) / self.objects

    def row(self) -> list[str]:
        """Return the cells of this run's row."""
        size = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        return [
            self.workload,
            f"{self.subject} / {self.variant}" if self.variant else self.subject,
            size,
            f"{self.wall_seconds:.2f}",
            f"{self.objects / self.wall_seconds:.1f}",
            f"{self.requests_per_object:.2f}",
            str(sum(self.failed_requests.values())),
            f"{self.subject_cpu_seconds:.2f}",
            f"{self.subject_peak_mib:.0f}",
        ]

    def document(self) -> dict[str, Any]:
        """Return everything, for a file."""
        return asdict(self)


def table(results: Iterable[Result]) -> str:
    """Return a Markdown table."""
    rows = [list(COLUMNS), ["---"] * len(COLUMNS), *(result.row() for result in results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def keep_result(folder: Path | None, name: str, document: Mapping[str, Any]) -> None:
    """Write what was measured into a folder, if one is given; nothing there is overwritten."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}-{time.time_ns()}.json"
        path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))


def costs(done: Mark, quiet: Mark) -> dict[str, Any]:
    """Return the fields of a result that a meter knows."""
    return {
        "settle_seconds": quiet.seconds - done.seconds,
        "requests": {name: one.total for name, one in quiet.requests.items()},
        "requests_by_action": _joined({name: one.by_action for name, one in quiet.requests.items()}),
        "failed_requests": _joined({name: one.failed for name, one in quiet.requests.items()}),
        "subject_cpu_seconds": of_subject(quiet.cpu_seconds),
        "subject_peak_mib": of_subject(quiet.peak_mib),
        "cpu_seconds": quiet.cpu_seconds,
        "memory_mib": {name: (quiet.first_mib[name], peak) for name, peak in quiet.peak_mib.items()},
    }


def _joined(by_cluster: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {f"{name}: {key}": count for name, counts in by_cluster.items() for key, count in counts.items()}


def of_subject(figures: Mapping[str, float]) -> float:
    """Return the sum over the processes of the subject."""
    return sum(figure for name, figure in figures.items() if name.startswith(SUBJECT))
