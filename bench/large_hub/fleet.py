"""The simulated fleet: agents that join at a rate and then renew their leases until the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from bench.large_hub.agent import SharedConnections, SimulatedAgent
from bench.large_hub.changes import ClusterChanges
from bench.rig.run import Cluster, bounded
from watchword.api.conditions import is_true
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.kube.endpoint import Endpoint
from watchword.runtime.cache import Cache
from watchword.runtime.clock import SystemClock
from watchword.testing.builders import an_addon

MAX_IN_FLIGHT = 256
PERIOD = 60.0  # of a lease, in seconds


@dataclass(frozen=True)
class SimulatedFleet:
    """All agents of a run. Ends with its task group."""

    shared: SharedConnections
    tasks: asyncio.TaskGroup
    agents: list[SimulatedAgent] = field(default_factory=list)  # that have joined
    join_seconds: list[float] = field(default_factory=list)
    addon_seconds: list[float] = field(default_factory=list)

    async def grow(self, names: Sequence[str], *, rate: float) -> None:
        """Let clusters join at so many in a second, whether or not earlier ones have finished; wait for all."""
        loop = asyncio.get_running_loop()
        began, joining = loop.time(), []
        for number, name in enumerate(names):
            await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
            joining.append(self.tasks.create_task(self._join(name)))
        await asyncio.gather(*joining)

    async def _join(self, name: str) -> None:
        agent = SimulatedAgent(name, self.shared)
        self.join_seconds.append(await agent.join())
        self._stay(agent, first_after=PERIOD * self.shared.random.uniform(0.75, 1))

    async def compared(self) -> None:
        """Wait until the hub has compared each clock, at the first renewal of a lease: copies would have it to do."""
        kind = ConditionType.CLOCK_SYNCED
        while not all(is_true(found, kind) for found in self.shared.cache.list(MANAGED_CLUSTERS)):  # noqa: ASYNC110 - the hub
            await asyncio.sleep(1.0)

    async def adopt(self, clusters: int) -> None:
        """Wait until the API server has so many clusters, and each of those without an agent has renewed its lease."""
        known = {agent.name for agent in self.agents}
        while len(found := self.shared.cache.list(MANAGED_CLUSTERS)) < clusters:  # noqa: ASYNC110 - another process
            await asyncio.sleep(1.0)
        for name in sorted({obj["metadata"]["name"] for obj in found} - known):
            self._stay(SimulatedAgent(name, self.shared), first_after=self.shared.random.uniform(0, PERIOD))
        await asyncio.sleep(PERIOD)

    def _stay(self, agent: SimulatedAgent, *, first_after: float) -> None:
        self.agents.append(agent)
        self.tasks.create_task(agent.renew_lease(first_after=first_after))

    async def register_addons(self, addons: Sequence[str], *, at_once: int) -> None:
        """Enable add-ons on every cluster, on a few at a time, and wait until each has its credential."""
        await bounded((self._register(agent, addon) for agent in self.agents for addon in addons), at_once)

    async def _register(self, agent: SimulatedAgent, addon: str) -> None:
        await self.shared.administrator.create(MANAGED_CLUSTER_ADDONS, an_addon(addon, cluster=agent.name))
        self.addon_seconds.append(await agent.register_addon(addon))


@asynccontextmanager
async def simulated_fleet(hub: Cluster, bootstrap: Client) -> AsyncIterator[SimulatedFleet]:
    """Yield a fleet without clusters on a hub; its agents end with the context."""
    administrator = connect(hub.plane.kubeconfig, max_in_flight=MAX_IN_FLIGHT)
    cache = Cache.of(administrator)
    changes = ClusterChanges(cache)
    endpoint = Endpoint(hub.plane.server, hub.plane.credentials.ca_pem)
    spread = Random(1)
    shared = SharedConnections(administrator, bootstrap, endpoint, cache, changes, SystemClock(), spread)
    watching = asyncio.create_task(cache.run())
    try:
        await cache.sync()
        async with asyncio.TaskGroup() as tasks:
            yield SimulatedFleet(shared, tasks)
            raise _Ended
    except* _Ended:
        pass
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await administrator.close()


class _Ended(Exception):
    """The run is over."""
