"""What `make bench-planes` runs: both servers up, every load on each in turn, the best of several rounds."""

from __future__ import annotations

import argparse
import asyncio
import math
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.planes.loads import ECHOED, LOADS, Bench
from bench.planes.many import INSTANCES
from bench.planes.servers import Server, echo, embedded, real
from bench.rig.result import keep_result
from watchword.runtime.event_loop import run

STARTS = {"embedded": embedded, "kube-apiserver": real}
Figures = dict[str, float]


@dataclass
class Row:
    """One line of the table: the best figure of each server, and the least processor time for one of it."""

    unit: str
    figures: Figures = field(default_factory=dict)
    cpu: Figures = field(default_factory=dict)  # microseconds


def main() -> None:
    """Measure and print."""
    options = _options()
    rows, many = run(measure(options.rounds))
    keep_result(options.out, "planes", {"rows": {name: asdict(row) for name, row in rows.items()}})
    _print(rows, many)


async def measure(rounds: int) -> tuple[dict[str, Row], tuple[float, float]]:
    """Return each row, and seconds and MiB of many instances."""
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rows["cold start"] = _starts(Path(folder), rounds)
        servers = [stack.enter_context(start(Path(folder) / name)) for name, start in STARTS.items()]
        rows["memory at rest"] = Row("MiB", {server.name: server.memory for server in servers})
        with echo(Path(folder) / "echo") as echoing:
            rows |= await _loads(servers, echoing, rounds)
        rows["memory after"] = Row("MiB", {server.name: server.memory for server in servers})
    return rows, _many()


def _starts(folder: Path, rounds: int) -> Row:
    row = Row("s")
    for number in range(rounds):
        for name, start in STARTS.items():
            with start(folder / f"start-{name}-{number}") as server:
                row.figures[name] = min(row.figures.get(name, server.start_seconds), server.start_seconds)
                row.cpu[name] = min(row.cpu.get(name, math.inf), server.cpu * 1e6)
    return row


async def _loads(servers: list[Server], echoing: Server, rounds: int) -> dict[str, Row]:
    benches = [await Bench.open(server) for server in servers]
    echoes = await Bench.connect(echoing)
    rows = {name: Row(unit) for name, (unit, _) in LOADS.items()}
    for _ in range(rounds):
        for name, (_, load) in LOADS.items():
            for bench in (*benches, echoes) if name in ECHOED else benches:
                row, server = rows[name], bench.server.name
                cost = await load(bench)
                row.figures[server] = max(row.figures.get(server, 0.0), cost.operations / cost.seconds)
                row.cpu[server] = min(row.cpu.get(server, math.inf), cost.cpu / cost.operations * 1e6)
                await asyncio.sleep(0.3)  # what the last load left behind is not the next one's
    for bench in (*benches, echoes):
        bench.clients.close()
    return rows


def _many() -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-m", "bench.planes.many"], capture_output=True, text=True, check=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def _print(rows: dict[str, Row], many: tuple[float, float]) -> None:
    print(f"{'':16}{'embedded':>10}{'kube-apiserver':>16}  {'':10}{'times better':>13}", end="")
    print(f"{'CPU of each, µs':>24}{'times less':>12}")
    for name, row in rows.items():
        ours, theirs = row.figures["embedded"], row.figures["kube-apiserver"]
        ratio = theirs / ours if row.unit in ("s", "MiB") else ours / theirs
        print(f"{name:16}{_short(ours):>10}{_short(theirs):>16}  {row.unit:10}{ratio:>13.2f}{_cpu_cells(row.cpu)}")
    for name in ECHOED:
        cost = rows[name].cpu["embedded"] / rows[name].cpu["echo"]
        print(f"{name}: {cost:.1f} times the processor time of a TLS server that sends the body back")
    print(f"{INSTANCES} instances in one process: {many[0]:.2f} s to start, {many[1]:.0f} MiB")


def _short(figure: float) -> str:
    return f"{figure:,.2f}" if figure < _SMALL else f"{figure:,.0f}"


_SMALL = 100


def _cpu_cells(cpu: Figures) -> str:
    if not cpu:
        return ""
    ours, theirs = cpu["embedded"], cpu["kube-apiserver"]
    return f"{f'{ours:,.0f} : {theirs:,.0f}':>24}{theirs / ours:>12.2f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="how often each load runs; the best counts")
    parser.add_argument("--out", type=Path, help="a folder for a file of all figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
