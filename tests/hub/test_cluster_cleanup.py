"""Clusters that left are deleted; a cluster that came back never is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.hub import prerequisites
from watchword.hub.cluster_cleanup import PATIENCE, ClusterCleanup, is_left_over
from watchword.kube.client import Client
from watchword.testing.builders import a_cluster
from watchword.testing.plane import Plane

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def denied(since: timedelta, *, status: str = "False", reason: str = "HubClusterAdminDenied") -> Object:
    row = {
        "type": "HubAcceptedManagedCluster",
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": rfc3339(NOW - since),
    }
    return {"conditions": [row]}


@pytest.mark.parametrize(
    ("accepted", "status", "expected"),
    [
        pytest.param(True, denied(timedelta(days=1)), False, id="accepted again"),
        pytest.param(False, {}, False, id="never decided upon"),
        pytest.param(False, denied(timedelta(days=1), status="True"), False, id="the hub has not withdrawn yet"),
        pytest.param(False, denied(timedelta(days=1), reason="Error"), False, id="another reason"),
        pytest.param(False, denied(timedelta(minutes=9)), False, id="too soon"),
        pytest.param(False, denied(timedelta(minutes=10)), True, id="long enough ago"),
        pytest.param(
            False,
            {"conditions": [{**denied(PATIENCE)["conditions"][0], "lastTransitionTime": "?"}]},
            False,
            id="unreadable",
        ),
    ],
)
def test_is_left_over(accepted: bool, status: Object, expected: bool) -> None:  # noqa: FBT001 - columns
    found = {**a_cluster("edge", accepted=accepted), "status": status}

    assert is_left_over(found, patience=PATIENCE, now=NOW) is expected


@pytest.fixture
async def hub(plane: Plane) -> Client:
    await prerequisites.install(plane.client())
    return plane.client()


async def has_denied(plane: Plane, name: str) -> Object:
    client, key = plane.client(), ObjectKey.cluster(name)
    await client.create(MANAGED_CLUSTERS, a_cluster(name))
    since = denied(NOW - plane.clock.now() + timedelta(hours=1))
    return await client.patch(MANAGED_CLUSTERS, key, {"status": since}, subresource="status")


class RejoinsFirst:
    """A transport through which a cluster is accepted again just before its deletion arrives."""

    def __init__(self, inner: Any, key: ObjectKey) -> None:
        self._inner, self._key = inner, key

    async def send(self, request: Request) -> Response:
        if request.method == "DELETE":
            patch = {"spec": {"hubAcceptsClient": True}}
            await Client(self._inner).patch(MANAGED_CLUSTERS, self._key, patch)
        answer: Response = await self._inner.send(request)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_a_cluster_that_left_is_deleted(plane: Plane, hub: Client) -> None:
    name = plane.unique("gone")
    await has_denied(plane, name)
    cleanup = ClusterCleanup(hub, plane.clock)

    assert name in await ClusterCleanup(hub, plane.clock, dry_run=True).run()
    assert await hub.find(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is not None
    assert name in await cleanup.run()

    assert await hub.find(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is None
    assert name not in await cleanup.run()


async def test_a_cluster_that_rejoins_at_the_last_moment_stays(plane: Plane, hub: Client) -> None:
    key = ObjectKey.cluster(plane.unique("back"))
    await has_denied(plane, key.name)
    racing = Client(RejoinsFirst(hub.transport, key))

    assert key.name not in await ClusterCleanup(racing, plane.clock).run()

    assert (await hub.get(MANAGED_CLUSTERS, key))["spec"]["hubAcceptsClient"] is True
