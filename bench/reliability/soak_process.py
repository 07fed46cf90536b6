"""One part of the fleet of `soak` as a process; answers a line on standard input with the number of its timers."""

from __future__ import annotations

import asyncio
import gc
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import SystemRandom

from watchword.apiserver.controllers import certificate_requests
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.cli.main import COLLECTION_THRESHOLDS
from watchword.kube.connect import connect
from watchword.local.data_directory import FleetDirectory, FleetLayout
from watchword.processes.agent import AgentRuntime, run_agent
from watchword.processes.hub import HubOptions, addon_controllers, run_hub
from watchword.registration.agent.options import AgentOptions
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run
from watchword.runtime.logs import configure_logging

KEPT = timedelta(minutes=1)
"""Events and certificate requests are kept for an hour otherwise: their number would rise for as long."""


async def run_planes(data: Path, layout: FleetLayout) -> None:
    """Serve the hub and every cluster at the addresses that their credentials name."""
    certificate_requests.DONE_KEPT = KEPT
    for address in layout.addresses:
        settings = InstanceSettings(data / address.name, port=address.port, event_ttl=KEPT)
        await Instance(settings, lambda: datetime.now(UTC)).start()
    print("serving", flush=True)
    await asyncio.Event().wait()


async def run_hub_controllers(data: Path, _: FleetLayout) -> None:
    """Run the controllers of the hub."""
    options = HubOptions(elect=False, install=False)
    client = connect(data / "kubeconfig", "hub")
    await run_hub(client, options, clock=SystemClock(), random=SystemRandom(), extensions=(addon_controllers,))


async def run_agents(data: Path, layout: FleetLayout) -> None:
    """Run the agent of every cluster."""
    async with asyncio.TaskGroup() as group:
        for cluster in layout.clusters:
            client = connect(data / "kubeconfig", cluster.name)
            runtime = AgentRuntime(clock=SystemClock(), random=SystemRandom())
            group.create_task(run_agent(client, AgentOptions(cluster.name, elect=False), runtime=runtime))


PARTS = {"plane": run_planes, "hub": run_hub_controllers, "agents": run_agents}


def count_timers() -> int:
    """Return how many timers are armed or wait to be collected."""
    return sum(type(obj).__name__ == "TimerHandle" for obj in gc.get_objects())


async def main(part: str, data: Path) -> None:
    """Run one part until the process is killed."""
    layout = FleetDirectory(data).recorded()
    assert layout is not None
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: (sys.stdin.readline(), print(count_timers(), flush=True)))
    await PARTS[part](data, layout)


if __name__ == "__main__":
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    configure_logging(level="info")
    run(main(sys.argv[1], Path(sys.argv[2])))
