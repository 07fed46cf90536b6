"""No cluster is lost while IAM throttles, and each costs few requests."""

from __future__ import annotations

import pytest
from tests.emulators.memory_aws import MemoryAws

from bench.aws_identities import HUB, MOST_PER_CLUSTER, accept_clusters


@pytest.mark.parametrize("limit", [10.0, 2.0])
async def test_every_cluster_is_accepted_with_few_requests(limit: float) -> None:
    figures = await accept_clusters(40, MemoryAws(HUB.account, limit=limit, lag=5.0))

    assert figures.accepted == 40
    assert figures.per_cluster <= MOST_PER_CLUSTER
