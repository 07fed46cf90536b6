"""Reads the results of single benchmarks as rows of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.large_hub.phases import BARE_P50, CLUSTER, JOIN_P50, MEMORY, PROCESSOR, REQUESTS
from bench.report.rows import OURS, ReportRow

EMBEDDED = "embedded"


def rig_rows(document: Mapping[str, Any]) -> Iterable[ReportRow]:
    """Read a result of the rig."""
    objects = document["objects"]
    yield ReportRow(
        document["workload"],
        _size(document["parameters"]),
        document["subject"],
        wall_ms=document["wall_seconds"] / objects * 1000,
        cpu_ms=document["subject_cpu_seconds"] / objects * 1000,
        memory_mib=document["subject_peak_mib"],
        requests=sum(document["requests"].values()) / objects,
    )


def plane_rows(document: Mapping[str, Any]) -> Iterable[ReportRow]:
    """Read the loads on both control planes."""
    for name, row in document["rows"].items():
        for server, figure in row["figures"].items():
            subject = OURS if server == EMBEDDED else server
            if row["unit"] == "MiB":
                yield ReportRow(f"control plane: {name}", "", subject, memory_mib=figure)
                continue
            wall = figure * 1000 if row["unit"] == "s" else 1000 / figure
            yield ReportRow(f"control plane: {name}", "", subject, wall_ms=wall, cpu_ms=row["cpu"][server] / 1000)


def client_rows(document: Mapping[str, Any]) -> Iterable[ReportRow]:
    """Read the tasks of all clients: the line after a rate is the processor time of the same task."""
    lines = document["lines"]
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        for subject, figure in line["figures"].items():
            if line["unit"] == "MB":
                yield ReportRow(f"client: {line['title']}", "", subject, memory_mib=figure * 1e6 / 2**20)
            elif line["unit"] == "/s":
                spent = following["figures"][subject] / 1000
                yield ReportRow(f"client: {line['title']}", "", subject, wall_ms=1000 / figure, cpu_ms=spent)


def large_hub_rows(document: Mapping[str, Any]) -> Iterable[ReportRow]:
    """Read a run with a large fleet, beside as many bare writes."""
    figures, name, size = document["figures"], "large hub: join", _size(document["size"])
    yield ReportRow(name, size, "bare writes", wall_ms=figures[BARE_P50] * 1000)
    yield ReportRow(
        name,
        size,
        OURS,
        wall_ms=figures[JOIN_P50] * 1000,
        cpu_ms=figures[f"{PROCESSOR} {CLUSTER}"],
        memory_mib=figures[MEMORY],
        requests=figures[f"{REQUESTS} {CLUSTER}"],
    )


def _size(parameters: Mapping[str, float]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in parameters.items())
