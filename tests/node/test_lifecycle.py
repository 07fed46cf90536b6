"""A cluster becomes a hub, joins itself and leaves: nothing remains, whatever goes first.

Tests of gRPC and of upgrades leave in the order of the guide.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.node.real_cluster import RealCluster

Step = Callable[[RealCluster], object]


def unjoin(cluster: RealCluster) -> None:
    done = cluster.watchword("unjoin", "--cluster-name", "edge-1", check=False)
    assert done.returncode in (0, 5), done.stderr  # 5: the hub, which is gone, was not notified


def delete(cluster: RealCluster) -> None:
    cluster.kubectl("delete", "managedcluster", "edge-1", "--ignore-not-found")


def clean(cluster: RealCluster) -> None:
    cluster.watchword("clean", "--yes", "--delete-kinds", "--force")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((delete, unjoin, clean), id="the hub forgets the cluster first"),
        pytest.param((clean, unjoin, clean), id="the hub goes while the agent is there"),
    ],
)
def test_hub_and_cluster_leave_nothing_in_any_order(cluster: RealCluster, steps: tuple[Step, ...]) -> None:
    cluster.join(cluster.init())
    assert "edge-1" in cluster.watchword("status").stdout
    cluster.watchword("doctor")

    for step in steps:
        step(cluster)
