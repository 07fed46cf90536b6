"""Memory, descriptors, timers and files of a fleet whose credentials are renewed without pause.

The hub's controllers, the agents and the control planes run in a process each. A cluster's credential is renewed every
second. After the warm-up nothing may grow by more than 15 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from threading import Event, Thread

from bench.reliability.figure import Figure, markdown_table
from bench.reliability.soak_process import PARTS
from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import rfc3339_micro
from watchword.kube.connect import connect
from watchword.kube.errors import KubeError
from watchword.local.data_directory import FleetDirectory
from watchword.runtime.event_loop import run

GROWTH = 0.15
SAMPLES = 3
"""How many samples at each end are averaged: compaction and collection make single ones vary."""
MEBIBYTE = 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--minutes", type=int, default=60, help="minutes of churn (default: %(default)s)")
    parser.add_argument(
        "--warm-up", type=int, default=12, help="minutes of them that do not count (default: %(default)s)"
    )
    parser.add_argument("--clusters", type=int, default=20, help="managed clusters (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=1.0, help="rotations a second (default: %(default)s)")


@dataclass(frozen=True)
class Sample:
    """What one process uses at one instant."""

    memory: float  # MiB
    descriptors: int
    timers: int


@dataclass(frozen=True)
class Part:
    """One process of the fleet."""

    name: str
    process: subprocess.Popen[str]

    def sample(self) -> Sample:
        """Read what the process uses; it counts its timers itself."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        timers = int(self.process.stdout.readline())
        folder = Path("/proc") / str(self.process.pid)
        pages = int((folder / "statm").read_text().split()[1])
        return Sample(pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE, len(list((folder / "fd").iterdir())), timers)


def measure(options: argparse.Namespace) -> Figure:
    """Return whether every series is flat after the warm-up."""
    with tempfile.TemporaryDirectory(prefix="watchword-soak-") as folder, ExitStack() as stack:
        data = Path(folder) / "fleet"
        command = [sys.executable, "-m", "watchword", "up", f"--clusters={options.clusters}", f"--data-dir={data}"]
        subprocess.run([*command, "--exit", "--timeout=300s"], check=True, stdout=subprocess.DEVNULL)
        parts = [stack.enter_context(_started(name, data, Path(folder))) for name in PARTS]
        requests = stack.enter_context(_rotating(data, options.rate))
        series: dict[str, list[float]] = {}
        for minute in range(1, options.minutes + 1):
            time.sleep(60)
            for name, value in _values(parts, data, Path(folder)).items():
                series.setdefault(name, []).append(value)
            print(f"minute {minute}: " + ", ".join(f"{name} {row[-1]:g}" for name, row in series.items()), flush=True)
    return judge(series, options.warm_up, requests)


def judge(series: dict[str, list[float]], warm_up: int, requests: Sequence[str]) -> Figure:
    """Compare the end of each series with its beginning after the warm-up."""
    rows, grown = [], list[str]()
    for name, row in series.items():
        counted = row[warm_up:]
        before, after = mean(counted[:SAMPLES]), mean(counted[-SAMPLES:])
        growth = after / before - 1 if before else 0.0
        if growth > GROWTH and not name.startswith("log"):
            grown.append(name)
        rows.append((name, f"{before:.1f}", f"{after:.1f}", f"{growth:+.0%}"))
    line = f"{len(requests)} rotations in {len(next(iter(series.values())))} min: " + (
        f"{', '.join(grown)} grew by more than {GROWTH:.0%}" if grown else f"nothing grew by more than {GROWTH:.0%}"
    )
    return Figure(line, not grown, markdown_table(("", "after the warm-up", "at the end", "growth"), rows))


def _values(parts: Sequence[Part], data: Path, folder: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        sample = part.sample()
        found[f"memory of {part.name} (MiB)"] = round(sample.memory, 1)
        found[f"descriptors of {part.name}"] = sample.descriptors
        found[f"timers of {part.name}"] = sample.timers
    database = sum(file.stat().st_size for file in data.glob("*/state.db*"))
    found["database (MiB)"] = round(database / MEBIBYTE, 2)
    found["logs (MiB)"] = round(sum(file.stat().st_size for file in folder.glob("*.log")) / MEBIBYTE, 2)
    return found


@contextmanager
def _started(name: str, data: Path, folder: Path) -> Iterator[Part]:
    command = [sys.executable, "-m", "bench.reliability.soak_process", name, str(data)]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        if name == "plane":
            assert process.stdout is not None
            process.stdout.readline()  # the others need it
        yield Part(name, process)
    finally:
        process.kill()
        process.wait()


@contextmanager
def _rotating(data: Path, rate: float) -> Iterator[list[str]]:
    """Request one rotation after the other in the background; the list grows with each."""
    requested, stop = list[str](), Event()
    layout = FleetDirectory(data).recorded()
    assert layout is not None
    names = [cluster.name for cluster in layout.clusters]

    def request() -> None:
        while not stop.wait(1 / rate):
            name = names[len(requested) % len(names)]
            with suppress(KubeError):  # at the start, when no control plane listens yet
                run(_request_rotation(data / "kubeconfig", name))
                requested.append(name)

    thread = Thread(target=request, daemon=True)
    thread.start()
    try:
        yield requested
    finally:
        stop.set()
        thread.join()


async def _request_rotation(kubeconfig: Path, name: str) -> None:
    hub = connect(kubeconfig, "hub")
    try:
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339_micro(datetime.now(UTC))}}}
        await hub.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)
    finally:
        await hub.close()
