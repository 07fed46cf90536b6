"""The phases of a run: bare writes, joins, rest, a restart, a fail-over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from bench.large_hub.addons import addon_names
from bench.large_hub.clones import cluster_name
from bench.large_hub.figures import Figure, Spread
from bench.large_hub.fleet import PERIOD, SimulatedFleet
from bench.large_hub.hub_metrics import scrape_seconds, wait_until_ready, wait_until_settled
from bench.rig.meter import Mark
from bench.rig.result import of_subject
from bench.rig.run import Cluster, Run
from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS, NAMESPACES
from watchword.kube.client import Client
from watchword.testing.builders import a_config_map, a_namespace
from watchword.testing.process import free_port

BARE = "bare"
CREATES, PATCHES = 10, 6  # what agent and hub write for one join
PATIENCE = 300.0
ADDONS_AT_ONCE = 16
BARE_P50, JOIN_P50 = "bare writes of one join, p50", "join, p50"
REQUESTS, REFUSED = "requests of the hub for", "of them refused, for"
PROCESSOR = "processor time of the hub for"
CLUSTER = "a cluster"
MEMORY = "memory of the hub, at its peak"


@dataclass(frozen=True)
class Size:
    """How large the fleet is, and how fast it joins."""

    clusters: int
    joined: int  # so many join; the others are copies of them
    addons: int
    rate: float  # clusters in a second
    rest: float  # seconds


async def measure_bare_writes(hub: Cluster, size: Size, count: int = 200) -> Iterable[Figure]:
    """Send as many writes as a join needs, one after the other, at the same rate and without a hub."""
    await hub.client.create(NAMESPACES, a_namespace(BARE))
    loop, durations = asyncio.get_running_loop(), []
    began = loop.time()

    async def one(number: int) -> None:
        await asyncio.sleep(max(0.0, began + number / size.rate - loop.time()))
        started = loop.time()
        await _write_bare(hub.client, number)
        durations.append(loop.time() - started)

    await asyncio.gather(*(one(number) for number in range(min(count, size.joined))))
    spread = Spread.of(durations)
    return Figure(BARE_P50, spread.p50, "s"), Figure("the same, p99", spread.p99, "s")


async def _write_bare(client: Client, number: int) -> None:
    for part in range(CREATES):
        await client.create(CONFIG_MAPS, a_config_map(f"c{number}-{part}", namespace=BARE, data={"v": "0"}))
    for part in range(PATCHES):
        await client.patch(CONFIG_MAPS, ObjectKey(BARE, f"c{number}-{part}"), {"data": {"v": "1"}})


async def measure_joins(one: Run, fleet: SimulatedFleet, size: Size) -> Iterable[Figure]:
    """Let the fleet join at its rate."""
    async with one.meter() as meter:
        began = time.monotonic()
        await fleet.grow([cluster_name(number) for number in range(size.joined)], rate=size.rate)
        wall = time.monotonic() - began
        await one.quiet()
        mark = meter.mark()
    joins = Spread.of(fleet.join_seconds)
    return (
        Figure("clusters joined in a second", size.joined / wall, "/s"),
        Figure(JOIN_P50, joins.p50, "s"),
        Figure("join, p99", joins.p99, "s", goal=5.0),
        *_costs(mark, size.joined, CLUSTER),
    )


async def measure_addons(one: Run, fleet: SimulatedFleet, size: Size) -> Iterable[Figure]:
    """Enable the add-ons on every cluster, so many at a time; each has its credential in the end."""
    async with one.meter() as meter:
        began = time.monotonic()
        await fleet.register_addons(addon_names(size.addons), at_once=ADDONS_AT_ONCE)
        wall = time.monotonic() - began
        await one.quiet()
        mark = meter.mark()
    addons = Spread.of(fleet.addon_seconds)
    return (
        Figure("add-ons registered in a second", len(fleet.addon_seconds) / wall, "/s"),
        Figure("add-on registered, p50", addons.p50, "s"),
        Figure("add-on registered, p99", addons.p99, "s"),
        *_costs(mark, len(fleet.addon_seconds), "an add-on"),
        Figure(MEMORY, of_subject(mark.peak_mib), "MiB", goal=_memory_goal(size.joined)),
        *_server_memory(mark),
    )


def _costs(mark: Mark, objects: int, what: str) -> Iterable[Figure]:
    requests = sum(one.total for one in mark.requests.values())
    failed = sum(sum(one.failed.values()) for one in mark.requests.values())
    yield Figure(f"{REQUESTS} {what}", requests / objects, "")
    yield Figure(f"{REFUSED} {what}", failed / objects, "")
    yield Figure(f"{PROCESSOR} {what}", of_subject(mark.cpu_seconds) / objects * 1000, "ms")


def _server_memory(mark: Mark) -> Iterable[Figure]:
    for name, peak in mark.peak_mib.items():
        if name.endswith((":kube-apiserver", ":etcd")):
            yield Figure(f"memory of {name.partition(':')[2]}, at its peak", peak, "MiB")


def _memory_goal(clusters: int) -> float:
    """Return 150 MiB for up to 3,000 clusters, and in proportion beyond."""
    return 150.0 * max(1.0, clusters / 3000)


async def measure_rest(one: Run, size: Size, port: int) -> Iterable[Figure]:
    """Measure a hub to which nothing happens but renewals of leases, after it has seen one of each cluster."""
    await asyncio.sleep(PERIOD)
    async with one.meter() as meter:
        await asyncio.sleep(size.rest)
        mark = meter.mark()
    share = of_subject(mark.cpu_seconds) / mark.seconds * 100
    requests = sum(one.total for one in mark.requests.values()) / mark.seconds * 60
    return (
        Figure("processor of the hub at rest", share, "% of a core", goal=2.0 * max(1.0, size.clusters / 3000)),
        Figure("requests of the hub at rest", requests, "a minute"),
        Figure("memory of the hub at rest", of_subject(mark.peak_mib), "MiB"),
        Figure("one page of metrics", await scrape_seconds(port), "s"),
    )


async def measure_start(one: Run, size: Size, replica: str, port: int) -> Iterable[Figure]:
    """Start the hub and wait until it has reconciled everything."""
    async with one.meter() as meter:
        one.launch_all(replica, meter, listen=port)
        await wait_until_settled(port, PATIENCE)
        settled = meter.mark()
    goal = 10.0 * max(1.0, size.clusters / 3000)
    return (
        Figure("start of a hub until all is reconciled", settled.seconds, "s", goal=goal),
        Figure("processor time of that start", of_subject(settled.cpu_seconds), "s"),
        Figure("requests of that start", sum(one.total for one in settled.requests.values()), ""),
        Figure(
            "memory of the started hub, at its peak",
            of_subject(settled.peak_mib),
            "MiB",
            goal=_memory_goal(size.clusters),
        ),
    )


async def measure_failover(one: Run, fleet: SimulatedFleet, leader: str, standby: str) -> Iterable[Figure]:
    """Kill the leader and let one more cluster join: the standby has to notice, to lead and to accept it."""
    port = free_port()
    one.launch_all(standby, listen=port)
    await wait_until_ready(port, PATIENCE)
    one.end_all(leader, kill=True)
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        await fleet.grow([f"late-{time.time_ns()}"], rate=1.0)  # a saved fleet has those of earlier runs
    return (
        Figure("fail-over: from `kill -9` of the leader until a new cluster has joined", time.monotonic() - began, "s"),
    )
