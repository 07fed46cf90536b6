"""What `make bench-planes` runs: both servers up, every load on each in turn, the best of several rounds."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.planes.loads import LOADS, Bench
from bench.planes.many import INSTANCES
from bench.planes.servers import Server, embedded, real
from watchword.runtime.loop import run

STARTS = {"embedded": embedded, "kube-apiserver": real}
Figures = dict[str, float]


def main() -> None:
    """Measure and print."""
    options = _options()
    rows, many = run(measure(options.rounds))
    _print(rows, many)


async def measure(rounds: int) -> tuple[dict[str, tuple[str, Figures]], tuple[float, float]]:
    """Return each row with its unit and both figures, and seconds and MiB of many instances."""
    rows: dict[str, tuple[str, Figures]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rows["cold start"] = "s", _starts(Path(folder), rounds)
        servers = [stack.enter_context(start(Path(folder) / name)) for name, start in STARTS.items()]
        rows["memory at rest"] = "MiB", {server.name: server.memory for server in servers}
        rows |= await _loads(servers, rounds)
        rows["memory after"] = "MiB", {server.name: server.memory for server in servers}
    return rows, _many()


def _starts(folder: Path, rounds: int) -> Figures:
    best: Figures = {}
    for number in range(rounds):
        for name, start in STARTS.items():
            with start(folder / f"start-{name}-{number}") as server:
                best[name] = min(best.get(name, server.start_seconds), server.start_seconds)
    return best


async def _loads(servers: list[Server], rounds: int) -> dict[str, tuple[str, Figures]]:
    benches = [await Bench.open(server) for server in servers]
    rows: dict[str, tuple[str, Figures]] = {name: (unit, {}) for name, (unit, _) in LOADS.items()}
    for _ in range(rounds):
        for name, (_, load) in LOADS.items():
            for bench in benches:
                figures = rows[name][1]
                figures[bench.server.name] = max(figures.get(bench.server.name, 0.0), await load(bench))
                await asyncio.sleep(0.3)  # what the last load left behind is not the next one's
    for bench in benches:
        bench.clients.close()
    return rows


def _many() -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-m", "bench.planes.many"], capture_output=True, text=True, check=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def _print(rows: dict[str, tuple[str, Figures]], many: tuple[float, float]) -> None:
    table = Table(title="embedded control plane beside kube-apiserver and etcd, fsync on")
    for heading in ("", "embedded", "kube-apiserver", "unit", "times better"):
        table.add_column(heading, justify="left" if heading in ("", "unit") else "right")
    for name, (unit, figures) in rows.items():
        ours, theirs = figures["embedded"], figures["kube-apiserver"]
        ratio = theirs / ours if unit in ("s", "MiB") else ours / theirs
        table.add_row(name, f"{ours:,.4g}", f"{theirs:,.4g}", unit, f"{ratio:.2f}")
    console = Console()
    console.print(table)
    console.print(f"{INSTANCES} instances in one process: {many[0]:.2f} s to start, {many[1]:.0f} MiB")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="how often each load runs; the best counts")
    return parser.parse_args()


if __name__ == "__main__":
    main()
