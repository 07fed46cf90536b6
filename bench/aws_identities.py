"""How a hub accepts many EKS clusters while IAM throttles: which are accepted, when, and with how many requests.

Run with `python -m bench.aws_identities`. Control plane and IAM are in memory and time is virtual, so the figures are
the same on every machine.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.emulators.memory_aws import NAME, MemoryAws, hub_catalog
from tests.helpers.fleet import FleetHarness, run_fleet

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.processes.hub import HubOptions, run_hub
from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.options import HUB_ARN, MANAGED_ARN
from watchword.runtime.logs import configure_logging
from watchword.testing.builders import a_cluster
from watchword.testing.embedded_backend import EmbeddedBackend
from watchword.testing.eventually import eventually_all
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import VirtualLoop

HUB = EksClusterArn("aws", "us-west-2", "111122223333", "fleet-hub")
MOST_PER_CLUSTER = 6
PATIENCE = 3600.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What happened."""

    clusters: int
    accepted: int
    seconds: float
    iam_requests: int
    throttled: int

    @property
    def per_cluster(self) -> float:
        """How many requests IAM got for each cluster."""
        return self.iam_requests / self.clusters


async def accept_clusters(clusters: int, aws: MemoryAws) -> Figures:
    """Accept clusters all at once, and wait until the hub has accepted each of them."""
    with tempfile.TemporaryDirectory() as folder:
        backend = EmbeddedBackend(Path(folder))
        await backend.start()
        async with run_fleet(Plane(backend, private=True)) as fleet:
            figures = await _measure(fleet, clusters, aws)
        await backend.stop()
    return figures


async def _measure(fleet: FleetHarness, clusters: int, aws: MemoryAws) -> Figures:
    options = HubOptions(
        drivers=(NAME,), catalog=hub_catalog(aws), settings={HUB_ARN.flag: str(HUB)}, elect=False, install=False
    )
    hub = run_hub(fleet.plane.fresh_client(), options, clock=fleet.plane.clock, random=Random(1))
    fleet.tasks.append(asyncio.create_task(hub))
    names = [fleet.name() for _ in range(clusters)]
    for number, name in enumerate(names):
        managed = EksClusterArn("aws", "eu-central-1", "444455556666", f"edge-{number}")
        manifest = a_cluster(name, accepted=True, annotations={MANAGED_ARN: str(managed)})
        await fleet.client.create(MANAGED_CLUSTERS, manifest)
    started = asyncio.get_running_loop().time()
    await eventually_all(fleet.client, MANAGED_CLUSTERS, are_accepted, within=PATIENCE)
    seconds = asyncio.get_running_loop().time() - started
    return Figures(clusters, len(aws.entries), seconds, aws.iam_requests, aws.throttled)


def are_accepted(clusters: Mapping[ObjectKey, Object]) -> bool:
    """Whether the hub has accepted every cluster."""
    return all(is_true(cluster, ConditionType.HUB_ACCEPTED) for cluster in clusters.values())


def main() -> None:
    """Print one row for each rate of IAM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=300)
    clusters = parser.parse_args().clusters
    configure_logging(level="error")
    print("| IAM requests a second | clusters | accepted | after | IAM requests | for each cluster | throttled |")
    print("|---|---|---|---|---|---|---|")
    for limit in (10.0, 2.0):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            found = runner.run(accept_clusters(clusters, MemoryAws(HUB.account, limit=limit, lag=5.0)))
        cells = (f"{limit:g}", clusters, found.accepted, f"{found.seconds:.0f} s", found.iam_requests)
        print(f"| {' | '.join(map(str, cells))} | {found.per_cluster:.1f} | {found.throttled} |")


if __name__ == "__main__":
    main()
