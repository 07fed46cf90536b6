"""A hub on EKS: its AWS account in memory, and the way in with tokens of IAM roles."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace
from tests.emulators.memory_aws import MemoryAws
from tests.simulation.planes import ADMIN, HubPlane

from watchword.api.http import Request, Response
from watchword.credentials.driver import Settings
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport
from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN, MANAGED_CLUSTER_ARN, ClusterPair

HUB_ARN = EksClusterArn("aws", "us-west-2", "111122223333", "fleet-hub")
TOKEN_LIFE = timedelta(minutes=15)


@dataclass
class SimulatedAws(MemoryAws):
    """The hub's account; STS may be out of reach by itself."""

    sts_outages: int = 0


def eks_pair(cluster: str) -> ClusterPair:
    """Return a cluster and its hub, as EKS names them."""
    return ClusterPair(HUB_ARN, EksClusterArn("aws", "eu-central-1", "444455556666", cluster))


def eks_settings(cluster: str) -> Settings:
    """Return what the agent of a cluster is configured with."""
    pair = eks_pair(cluster)
    return {HUB_CLUSTER_ARN.flag: str(pair.hub), MANAGED_CLUSTER_ARN.flag: str(pair.managed)}


@dataclass
class EksTransport:
    """Shows the token of a cluster's role; the hub knows the role by its access entry."""

    hub: HubPlane
    aws: SimulatedAws
    pair: ClusterPair
    _good_until: datetime | None = None

    async def send(self, request: Request) -> Response:
        """Send one request."""
        return await self._identified().send(self._as_user(request))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Open a stream."""
        async with self._identified().stream(self._as_user(request)) as response:
            yield response

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _identified(self) -> Transport:
        """Return a transport with a token that is good for some minutes; `Unreachable` when STS issues none."""
        now = self.hub.clock.now()
        if self._good_until is None or now >= self._good_until:
            role = self.aws.roles.get(self.pair.hub_role.rpartition("/")[2])
            if self.aws.sts_outages or role is None or self.pair.managed_role not in json.dumps(role.trust):
                raise Unreachable("the exec plugin got no token from STS", maybe_processed=False)
            self._good_until = now + TOKEN_LIFE
        known = self.pair.hub_role in self.aws.entries
        return self.hub.as_token(ADMIN.token.reveal() if known else "of a role that is not mapped")

    def _as_user(self, request: Request) -> Request:
        entry = self.aws.entries.get(self.pair.hub_role)
        if entry is None:
            return request
        groups = ("system:authenticated", *entry["kubernetesGroups"])
        headers = (("Impersonate-User", entry["username"]), *(("Impersonate-Group", group) for group in groups))
        return replace(request, headers=(*request.headers, *headers))
