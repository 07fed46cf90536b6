"""A hub whose API server does not refuse clusters that accept themselves grants nothing."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tests.helpers.fleet import AUTOMATIC, FleetHarness

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType, cluster_role
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, MANAGED_CLUSTERS
from watchword.kube.transport import Transport
from watchword.testing.builders import a_cluster


@dataclass
class WithoutAdmissionPolicy:
    """A transport to a server that admits every ManagedCluster that is only tried."""

    inner: Transport

    async def send(self, request: Request) -> Response:
        if request.method == "POST" and request.path == MANAGED_CLUSTERS.path() and request.parameter("dryRun"):
            return Response(201, (("Content-Type", "application/json"),), request.body)
        return await self.inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


async def test_cluster_gets_no_rights_while_the_server_does_not_enforce_acceptance(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.through = WithoutAdmissionPolicy
    fleet.start_hub(AUTOMATIC)

    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))

    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "AdmissionPolicyMissing")
    for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
        assert await fleet.client.find(kind, ObjectKey.cluster(cluster_role(name))) is None
