"""What `python -m bench.small_hub` runs: the same hub and the same agents on each server, one after the other."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from bench.planes.servers import MIB, Server, embedded, processor_seconds, real, resident
from bench.small_hub.fleet import PlayedFleet
from bench.small_hub.probe import NAME, Latency, Probe
from bench.workloads.hub import install_hub
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS
from watchword.kube.connect import connect
from watchword.runtime.event_loop import run
from watchword.testing.builders import a_cluster_role_binding, a_config_map
from watchword.testing.credentials import ADMIN, ADMIN_GROUPS
from watchword.testing.process import ChildProcess

CONTROLLERS = ("namespace-controller", "garbage-collector-controller", "serviceaccount-controller")
SERVERS: Mapping[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "embedded": embedded,
    "kube-apiserver": partial(real, controllers=(*CONTROLLERS, "root-ca-certificate-publisher-controller")),
}
HUB, HUB_GROUP = "bench:hub", "bench:hubs"
READY_SECONDS = 3.0


class Phase(Struct):
    """What one part of the run cost."""

    seconds: float = 0.0
    server_cpu: float = 0.0
    hub_cpu: float = 0.0
    written: int = 0
    latency: Latency | None = None


class Figures(Struct, frozen=True):
    """What was measured on one server."""

    created: Phase
    renewed: Phase
    renewals: int
    deleted: Phase
    memory: float
    hub_memory: float
    stored: float


def main() -> None:
    """Measure and print."""
    options = _options()
    figures: dict[str, Figures] = {}
    for name in options.server or SERVERS:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, SERVERS[name](Path(folder) / name) as server:
            figures[name] = run(measure(server, options))
    _print(figures)


async def measure(server: Server, options: argparse.Namespace) -> Figures:
    """Run one hub on a server through all phases."""
    await _prepare(server)
    with _hub(server) as hub:
        await asyncio.sleep(READY_SECONDS)
        fleet = PlayedFleet(server, options.clusters)
        async with fleet.playing():
            async with _phase(server, hub, probed=True) as created:
                created.seconds = await fleet.create()
            await asyncio.sleep(READY_SECONDS)
            async with _phase(server, hub, probed=False) as renewed:
                renewals = await fleet.renew(options.renew_seconds)
            memory, hub_memory, stored = server.memory, resident(hub.pid) / MIB, _size(server.data)
            async with _phase(server, hub, probed=True) as deleted:
                deleted.seconds = await fleet.delete()
    return Figures(created, renewed, renewals, deleted, memory, hub_memory, stored)


async def _prepare(server: Server) -> None:
    client = connect(server.kubeconfig(ADMIN, ADMIN_GROUPS))
    await install_hub(client)
    binding = a_cluster_role_binding("bench-hubs", role="cluster-admin", groups=[HUB_GROUP])
    await client.create(CLUSTER_ROLE_BINDINGS, binding)
    await client.create(CONFIG_MAPS, a_config_map(NAME, namespace="default"))
    await client.close()


@contextmanager
def _hub(server: Server) -> Iterator[ChildProcess]:
    kubeconfig = server.kubeconfig(HUB, [HUB_GROUP])
    command = [sys.executable, "-m", "watchword", "hub", f"--kubeconfig={kubeconfig}", "--disable-leader-election"]
    process = ChildProcess(command, server.data.parent / "hub.log")
    try:
        yield process
    finally:
        process.stop()


@asynccontextmanager
async def _phase(server: Server, hub: ChildProcess, *, probed: bool) -> AsyncIterator[Phase]:
    phase, probe = Phase(), Probe(server)
    cpu, hub_cpu, written = server.cpu, processor_seconds(hub.pid), server.written
    begin = time.monotonic()
    if probed:
        async with probe.measuring():
            yield phase
        phase.latency = probe.latency
    else:
        yield phase
    phase.seconds = phase.seconds or time.monotonic() - begin
    phase.server_cpu, phase.hub_cpu = server.cpu - cpu, processor_seconds(hub.pid) - hub_cpu
    phase.written = server.written - written


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MIB


def _print(figures: Mapping[str, Figures]) -> None:
    rows = {name: _cells(found) for name, found in figures.items()}
    print("| | " + " | ".join(rows) + " | ratio |")
    print("|---|" + "---|" * (len(rows) + 1))
    for row, first in next(iter(rows.values())).items():
        values = [cells[row] for cells in rows.values()]
        ratio = f"{first / values[1]:.2f}" if len(values) > 1 and values[1] else ""
        print(f"| {row} | " + " | ".join(f"{value:,.3g}" for value in values) + f" | {ratio} |")


def _cells(found: Figures) -> dict[str, float]:
    return {
        **_phase_cells("creation", found.created),
        **_phase_cells("deletion", found.deleted),
        "lease renewals": found.renewals,
        "written for one renewal, bytes": found.renewed.written / found.renewals,
        "CPU of the server for one renewal, ms": found.renewed.server_cpu / found.renewals * 1000,
        "CPU of the hub for one renewal, ms": found.renewed.hub_cpu / found.renewals * 1000,
        "memory of the server, MiB": found.memory,
        "memory of the hub, MiB": found.hub_memory,
        "files of the server, MiB": found.stored,
    }


def _phase_cells(name: str, phase: Phase) -> dict[str, float]:
    assert phase.latency is not None
    return {
        f"{name}, seconds until settled": phase.seconds,
        f"{name}, CPU of the server, s": phase.server_cpu,
        f"{name}, CPU of the hub, s": phase.hub_cpu,
        f"{name}, written, MiB": phase.written / MIB,
        f"{name}, watch latency p50, ms": phase.latency.median * 1000,
        f"{name}, watch latency p99, ms": phase.latency.p99 * 1000,
        f"{name}, watch latency max, ms": phase.latency.longest * 1000,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=2_000)
    parser.add_argument("--renew-seconds", type=float, default=60.0, help="how long leases are renewed")
    parser.add_argument("--server", action="append", choices=list(SERVERS), help="both unless named")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data")
    return parser.parse_args()


if __name__ == "__main__":
    main()
