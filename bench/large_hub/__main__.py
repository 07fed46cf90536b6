"""Measure a hub with a large fleet: python -m bench.large_hub --clusters 3000 --addons 3."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from bench.large_hub.addons import addon_names, describe_addons
from bench.large_hub.clones import multiply
from bench.large_hub.figures import Figure, table
from bench.large_hub.fleet import SimulatedFleet, simulated_fleet
from bench.large_hub.phases import (
    Size,
    measure_addons,
    measure_bare_writes,
    measure_failover,
    measure_joins,
    measure_rest,
    measure_start,
)
from bench.rig.result import keep_result
from bench.rig.run import GROUP, Cluster, Run
from bench.rig.subject import read_subject
from bench.workloads.hub import allow_bootstrap, bootstrap_kubeconfig, prepare_hub
from bench.workloads.join import SIGNER
from watchword.kube.connect import connect
from watchword.runtime.event_loop import run
from watchword.testing.kube_apiserver_backend import find_assets
from watchword.testing.process import free_port

ONLY_SUBJECTS = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": [GROUP]}, {"level": "None"}],
}
"""Renewals of leases by a large fleet would fill the audit log."""

STARTED, STANDBY = "-started", "-standby"
SUBJECT = Path(__file__).parents[1] / "subjects" / "watchword.toml"


def main() -> None:
    """Run all phases and print the table, each phase as soon as it is over."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything started is ended
    size = Size(
        arguments.clusters, arguments.joined or arguments.clusters, arguments.addons, arguments.rate, arguments.rest
    )
    figures = run(_run(size, arguments))
    load = " ".join(f"{figure:.1f}" for figure in os.getloadavg())
    print(f"\n{size.clusters} clusters with {size.addons} add-ons each; load average at the end: {load}\n")
    print(table(figures))
    rows = {figure.name: figure.value for figure in figures}
    keep_result(arguments.out, "large-hub", {"size": asdict(size), "figures": rows})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.large_hub", description="Measure a hub with a large fleet.")
    parser.add_argument("--clusters", type=int, default=300)
    parser.add_argument("--joined", type=int, help="so many join, the others are copies in etcd; default: all join")
    parser.add_argument("--addons", type=int, default=3, help="of each cluster")
    parser.add_argument("--rate", type=float, default=20.0, help="clusters that join in a second")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds of rest that are measured")
    parser.add_argument("--subject", type=Path, default=SUBJECT, help="a file of command lines with the hub")
    parser.add_argument("--save", type=Path, help="a new folder for the data of etcd, to load in later runs")
    parser.add_argument("--load", type=Path, help="a fleet that was saved: its clusters are there, and none joins")
    parser.add_argument("--out", type=Path, help="a folder for a file of all figures")
    return parser.parse_args()


async def _run(size: Size, arguments: argparse.Namespace) -> list[Figure]:
    subject = read_subject(arguments.subject)
    with tempfile.TemporaryDirectory(prefix="watchword-large-hub-") as folder:
        one = Run(subject, "large-hub", {"settle": 120}, find_assets(), Path(folder), "")
        try:
            hub = await one.cluster("hub", audited=ONLY_SUBJECTS, data=arguments.load)
            return await _measure(one, hub, size, is_new=arguments.load is None)
        except BaseException:
            print(one.log_tail(), file=sys.stderr)
            raise
        finally:
            await one.close()
            if arguments.save is not None:
                shutil.copytree(hub.plane.data, arguments.save)


async def _measure(one: Run, hub: Cluster, size: Size, *, is_new: bool) -> list[Figure]:
    hub.run_controllers(SIGNER)
    figures: list[Figure] = []
    if is_new:
        await prepare_hub(hub)
        await allow_bootstrap(hub)
        await describe_addons(hub.client, addon_names(size.addons))
        figures += _shown(await measure_bare_writes(hub, size))
    bootstrap, port = connect(bootstrap_kubeconfig(hub)), free_port()
    try:
        async with simulated_fleet(hub, bootstrap) as fleet:
            figures += await _fill(one, fleet, size) if is_new else []
            await asyncio.to_thread(multiply, hub.plane.etcd_endpoint, size.clusters)
            await fleet.adopt(size.clusters)
            figures += _shown(await measure_start(one, size, STARTED, port))
            figures += _shown(await measure_rest(one, size, port))
            figures += _shown(await measure_failover(one, fleet, STARTED, STANDBY))
    finally:
        await bootstrap.close()
    return figures


async def _fill(one: Run, fleet: SimulatedFleet, size: Size) -> list[Figure]:
    one.launch_all(listen=free_port())
    await one.quiet()
    figures = _shown(await measure_joins(one, fleet, size))
    figures += _shown(await measure_addons(one, fleet, size)) if size.addons else []
    await fleet.compared()
    one.end_all()
    return figures


def _shown(figures: Iterable[Figure]) -> list[Figure]:
    rows = list(figures)
    for figure in rows:
        print(" ".join(figure.row()), file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
