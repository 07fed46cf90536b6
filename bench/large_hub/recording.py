"""Records the objects of clusters that joined an embedded hub, to be replayed to a hub as those of a large fleet."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from random import Random

import orjson
from tests.helpers.fleet import AUTOMATIC, BOOTSTRAP_USER, run_fleet

from bench.large_hub.addons import addon_names, describe_addons
from bench.large_hub.agent import SharedConnections, SimulatedAgent
from bench.large_hub.changes import ClusterChanges
from bench.large_hub.clones import cluster_name
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import Object
from watchword.api.resources import (
    ADDON_TEMPLATES,
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGEMENT_ADDONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from watchword.kube.endpoint import Endpoint
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.runtime.cache import Cache
from watchword.runtime.event_loop import run
from watchword.testing.builders import an_addon
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.plane import Plane

RECORDED = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANIFEST_WORKS,
    CLUSTER_MANAGEMENT_ADDONS,
    ADDON_TEMPLATES,
    CERTIFICATE_SIGNING_REQUESTS,
    NAMESPACES,
    LEASES,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
CLUSTERS = 2
SETTLE_SECONDS = 3.0


def main() -> None:
    """Record so many add-ons into a file: python -m bench.large_hub.recording FILE ADDONS."""
    path, addons = Path(sys.argv[1]), int(sys.argv[2])
    path.write_bytes(orjson.dumps(run(record(addons))))


async def record(addons: int) -> dict[str, list[Object]]:
    """Let two clusters join and return every object of the hub, by the resource of its kind."""
    with tempfile.TemporaryDirectory(prefix="watchword-recording-") as folder:
        async with open_embedded(Path(folder), listening=True) as backend:
            plane = Plane(backend, private=True)
            async with run_fleet(plane) as fleet:
                await describe_addons(fleet.client, addon_names(addons))
                fleet.start_hub(AUTOMATIC, [hub_addon_controllers])
                await _join(plane, addon_names(addons))
                await asyncio.sleep(SETTLE_SECONDS)
                found = {kind.group_resource: (await fleet.client.list(kind)).items for kind in RECORDED}
                fleet.clusters = [cluster_name(number) for number in range(CLUSTERS)]
            await plane.close()
    return found


async def _join(plane: Plane, addons: list[str]) -> None:
    client = plane.client()
    cache = Cache.of(client)
    changes = ClusterChanges(cache)
    endpoint = Endpoint(plane.server, plane.ca_pem)
    bootstrap = plane.client(BOOTSTRAP_USER, (MANAGED_CLUSTER_GROUP,))
    shared = SharedConnections(client, bootstrap, endpoint, cache, changes, plane.clock, Random(1))
    watching = asyncio.create_task(cache.run())
    try:
        await cache.sync()
        for number in range(CLUSTERS):
            agent = SimulatedAgent(cluster_name(number), shared)
            await agent.join()
            for name in addons:
                await client.create(MANAGED_CLUSTER_ADDONS, an_addon(name, cluster=agent.name))
                await agent.register_addon(name)
            renewing = asyncio.create_task(agent.renew_lease(first_after=0.0))  # shows the hub that the clocks agree
            await asyncio.sleep(SETTLE_SECONDS)
            renewing.cancel()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


if __name__ == "__main__":
    main()
