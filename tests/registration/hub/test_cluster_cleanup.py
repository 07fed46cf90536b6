"""A cluster that left by its own side is announced, then deleted; a denied cluster never is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, service_account_user
from watchword.api.rbac import rules_of
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.time import rfc3339
from watchword.kube.client import Client
from watchword.operator.cluster_manager import CLEANER
from watchword.operator.rbac import CLEANER_RIGHTS
from watchword.operator.rendering import cluster_role_with_binding
from watchword.registration.hub import installation as prerequisites
from watchword.registration.hub.cluster_removal import RETENTION, ClusterCleanup, is_due_for_deletion
from watchword.testing.builders import a_cluster
from watchword.testing.plane import Plane

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def a_condition(type_: str, status: str, reason: str, since: str) -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": since}


def said(announced: timedelta | None, *, status: str = "False", reason: str = "HubClusterAdminDenied") -> Object:
    rows = [a_condition("HubAcceptedManagedCluster", status, reason, rfc3339(NOW - 2 * RETENTION))]
    if announced is not None:
        rows.append(a_condition("CleanupScheduled", "True", "ManagedClusterLeft", rfc3339(NOW - announced)))
    return {"conditions": rows}


LEFT = {Annotation.LEFT_ON: rfc3339(NOW - RETENTION)}


@pytest.mark.parametrize(
    ("annotations", "accepted", "status", "expected"),
    [
        pytest.param({}, False, said(RETENTION), False, id="denied by the administrator"),
        pytest.param({**LEFT, Annotation.DENIED_ON: "x"}, False, said(RETENTION), False, id="left, and denied"),
        pytest.param(LEFT, True, said(RETENTION), False, id="accepted again"),
        pytest.param(LEFT, False, {}, False, id="never decided upon"),
        pytest.param(LEFT, False, said(RETENTION, status="True"), False, id="the hub has not withdrawn yet"),
        pytest.param(LEFT, False, said(RETENTION, reason="Error"), False, id="another reason"),
        pytest.param(LEFT, False, said(None), False, id="not announced"),
        pytest.param(LEFT, False, said(RETENTION - timedelta(seconds=1)), False, id="announced too recently"),
        pytest.param(LEFT, False, said(RETENTION), True, id="announced long enough ago"),
    ],
)
def test_is_due_for_deletion(
    annotations: dict[str, str],
    accepted: bool,  # noqa: FBT001 - a column
    status: Object,
    expected: bool,  # noqa: FBT001 - a column
) -> None:
    found = {**a_cluster("edge", accepted=accepted), "status": status}
    found["metadata"] = {**found["metadata"], "annotations": annotations}

    assert is_due_for_deletion(found, retention=RETENTION, now=NOW) is expected


@pytest.fixture
async def hub(plane: Plane) -> Client:
    await prerequisites.install(plane.client())
    return plane.client()


async def has_left(plane: Plane, name: str) -> None:
    client, key = plane.client(), ObjectKey.cluster(name)
    cluster = a_cluster(name)
    cluster["metadata"] = {**cluster["metadata"], "annotations": LEFT}
    await client.create(MANAGED_CLUSTERS, cluster)
    announced = said(NOW - plane.clock.now() + RETENTION)
    await client.patch(MANAGED_CLUSTERS, key, {"status": announced}, subresource="status")


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


async def with_rights_of_the_cleaner(plane: Plane) -> Client:
    for resource, obj in cluster_role_with_binding("test-cluster-cleaner", rules_of(CLEANER_RIGHTS), CLEANER):
        await plane.client().apply(resource, obj, force=True)
    return plane.client(service_account_user(CLEANER.namespace, CLEANER.name), ["system:serviceaccounts"])


async def test_a_cluster_that_left_is_deleted(plane: Plane, hub: Client) -> None:
    name = plane.unique("gone")
    await has_left(plane, name)
    cleaner = await with_rights_of_the_cleaner(plane)
    cleanup = ClusterCleanup(cleaner, plane.clock)

    assert name in await ClusterCleanup(cleaner, plane.clock, dry_run=True).run()
    assert await hub.find(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is not None
    assert name in await cleanup.run()

    assert await hub.find(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is None
    assert name not in await cleanup.run()


async def test_a_cluster_that_rejoins_at_the_last_moment_stays(plane: Plane, hub: Client) -> None:
    key = ObjectKey.cluster(plane.unique("back"))
    await has_left(plane, key.name)
    racing = Client(RejoinsFirst(hub.transport, key))

    assert key.name not in await ClusterCleanup(racing, plane.clock).run()

    assert (await hub.get(MANAGED_CLUSTERS, key))["spec"]["hubAcceptsClient"] is True
