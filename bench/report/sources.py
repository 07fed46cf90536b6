"""Runs the benchmarks, each in a process of its own, and reads their results as rows."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from bench.report.readers import client_rows, large_hub_rows, plane_rows, rig_rows
from bench.report.rows import OURS, ReportRow, Skipped
from bench.report.selection import SubjectFile, choose_subjects
from bench.rig.__main__ import WORKLOADS

SMALL: Mapping[str, Mapping[str, int]] = {
    "hub-accept": {"n": 50},
    "addon-token-infra": {"clusters": 5, "addons": 5},
    "agent-addon-tokens": {"n": 10, "repairs": 2},
    "join": {"k": 4},
    "join-grpc": {"k": 4},
    "bootstrap-signer": {"n": 50, "expiring": 10},
    "pull-secrets": {"n": 50, "namespaces": 5},
    "managed-accounts": {"n": 30},
    "account-fan-out": {"clusters": 30},
}
"""Parameters of the workloads for `SCALE=small`; `SCALE=full` uses each workload's own."""

ReadRows: TypeAlias = Callable[[Mapping[str, Any]], Iterable[ReportRow]]


@dataclass
class Report:
    """The rows so far, and what could not be measured."""

    full: bool
    rows: list[ReportRow] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def run_workloads(self, files: Sequence[SubjectFile], places: Mapping[str, str]) -> None:
        """Run every workload of the rig with every subject at hand."""
        for workload in WORKLOADS:
            chosen, skipped = choose_subjects(files, workload, places)
            self.skipped += skipped
            for one in chosen:
                parameters = {} if self.full else SMALL.get(workload, {})
                named = [f"-p{name}={value}" for name, value in parameters.items()]
                self._take(
                    workload, one.subject.name, ["bench.rig", workload, f"--subject={one.path}", *named], rig_rows
                )

    def run_planes(self) -> None:
        """Run the loads on both control planes."""
        rounds = "--rounds=2" if self.full else "--rounds=1"
        self._take("control plane", "all", ["bench.planes", rounds], plane_rows)

    def run_clients(self, python: str) -> None:
        """Run the requests and the streams of all clients, by a Python that has the peers' packages."""
        share = "--share=1" if self.full else "--share=0.1"
        self._take("client", "all", ["bench.clients.comparison", share], client_rows, python=python)

    def run_large_hub(self) -> None:
        """Run a large fleet."""
        size = ["--clusters=1000"] if self.full else ["--clusters=50", "--addons=2", "--rest=20"]
        self._take("large hub", OURS, ["bench.large_hub", *size], large_hub_rows)

    def _take(
        self, benchmark: str, subject: str, command: Sequence[str], read: ReadRows, *, python: str = sys.executable
    ) -> None:
        print(f"{benchmark}: {subject}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="watchword-report-") as folder:
            done = subprocess.run([python, "-m", *command, f"--out={folder}"], check=False, capture_output=True)
            if done.returncode:
                print(done.stderr.decode(errors="replace")[-2000:], file=sys.stderr)
                self.skipped.append(Skipped(benchmark, subject, f"the run failed with code {done.returncode}"))
                return
            for path in sorted(Path(folder).glob("*.json")):
                self.rows += read(orjson.loads(path.read_bytes()))
