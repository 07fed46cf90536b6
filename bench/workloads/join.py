"""Agents, one process each, join with bootstrap credentials → all are ManagedClusterJoined=True."""

from __future__ import annotations

import asyncio
import statistics
import time

from bench.rig.finish import FinishLine
from bench.rig.result import SUBJECT, Result
from bench.rig.run import PATIENCE, Cluster, Run
from bench.workloads.hub import BOOTSTRAP_USER, allow_bootstrap, is_true, prepare_hub, prepare_managed
from watchword.api.meta import Object
from watchword.api.resources import MANAGED_CLUSTERS

PARAMETERS = {"k": 20, "settle": 20, "idle": 0}
AGENT = f"{SUBJECT}agent-"
AGENT_USERS = ("system:open-cluster-management:", BOOTSTRAP_USER)
SIGNER = "certificatesigningrequest-signing-controller"


async def run(one: Run) -> Result:
    """Let agents join with a bootstrap kubeconfig."""
    hub, bootstrap = await prepare(one)
    return await measure_joins(one, hub, bootstrap)


async def measure_joins(one: Run, hub: Cluster, bootstrap: str) -> Result:
    """Start the agents; the clock starts with the first process: starting is part of the job."""
    names = [f"c{number:03d}" for number in range(one.parameters["k"])]
    started: dict[str, float] = {}
    joined: dict[str, float] = {}

    def is_done(_: str, cluster: Object) -> bool:
        if is_true(cluster, "ManagedClusterJoined"):
            joined.setdefault(cluster["metadata"]["name"], time.monotonic())
        return joined.keys() >= set(names)

    async with FinishLine(hub.client, MANAGED_CLUSTERS, is_done) as finish, one.meter() as meter:
        began = time.monotonic()
        for number, name in enumerate(names):
            started[name] = time.monotonic()
            one.launch_agent(number, meter, bootstrap=bootstrap, cluster=name)
        triggered = time.monotonic() - began
        wall = await finish.crossed(PATIENCE) - began
        result = await one.settled(meter, len(names), wall, triggered)
        peaks = meter.mark().peak_mib
    result.more["join_seconds"] = _spread([joined[name] - started[name] for name in names])
    result.more["agent_cpu_seconds"] = _spread([spent for name, spent in result.cpu_seconds.items() if _is_agent(name)])
    result.more["agent_peak_mib"] = _spread([size for name, size in peaks.items() if _is_agent(name)])
    if one.parameters["idle"]:
        result.more["idle_per_minute"] = await _idle(one, one.parameters["idle"], len(names))
    return result


async def _idle(one: Run, seconds: int, agents: int) -> dict[str, float]:
    """Measure what a fleet costs to which nothing happens, for each agent and minute."""
    async with one.meter() as meter:
        await asyncio.sleep(seconds)
        mark = meter.mark()
    share = 60 / seconds / agents
    spent = sum(cpu for name, cpu in mark.cpu_seconds.items() if _is_agent(name))
    return {"cpu_seconds": spent * share, **{name: one.total * share for name, one in mark.requests.items()}}


def _is_agent(process: str) -> bool:
    return process.startswith(AGENT)


def _spread(figures: list[float]) -> dict[str, float]:
    return {"median": statistics.median(figures), "most": max(figures)}


async def prepare(one: Run) -> tuple[Cluster, str]:
    """Start a hub that signs certificates, a managed cluster and the hub's programs."""
    one.users = (*one.users, *AGENT_USERS)
    hub, spoke = await one.cluster("hub"), await one.cluster("spoke")
    hub.run_controllers(SIGNER)
    await prepare_hub(hub)
    await prepare_managed(spoke)
    bootstrap = await allow_bootstrap(hub)
    one.launch_all()
    await one.quiet()
    return hub, bootstrap
