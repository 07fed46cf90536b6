"""A driver that is not part of the product: its cluster registers without proof, under a cloud's user name."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from watchword.api.cluster import Cluster
from watchword.api.http import Request, Response
from watchword.api.names import cluster_group, cluster_group_plain
from watchword.drivers.catalog import CATALOG
from watchword.drivers.interface import (
    AgentContext,
    DriverEntry,
    HubContext,
    NewCredential,
    ObtainResult,
    SecretData,
    ValidCredential,
    WantedCredential,
)
from watchword.kube.kubeconfig import UserEntry
from watchword.kube.transport import Transport
from watchword.runtime.clock import Clock
from watchword.testing.fleet import PlaneConnector

VOUCHER = "voucher"
LIFE = timedelta(hours=12)
ANNOTATION = "voucher.example.com/name"


@dataclass(frozen=True)
class VoucherAgentDriver:
    """Writes the voucher itself; the transport decides the identity on the hub."""

    clock: Clock

    @classmethod
    def make(cls, context: AgentContext) -> VoucherAgentDriver:
        return cls(context.clock)

    def user_entry(self) -> UserEntry:
        return UserEntry()

    def owned_keys(self) -> frozenset[str]:
        return frozenset({VOUCHER})

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        now = self.clock.now()
        return ValidCredential(now + LIFE, now + LIFE) if held.get(VOUCHER) == wanted.cluster.encode() else None

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        now = self.clock.now()
        return self.assess(wanted, held) or NewCredential(
            {VOUCHER: wanted.cluster.encode()}, now, now + LIFE, now + LIFE
        )


@dataclass(frozen=True)
class VoucherHubDriver:
    """Recognises every cluster with the annotation: the hub grants rights, and an administrator accepts."""

    @classmethod
    def make(cls, _: HubContext) -> VoucherHubDriver:
        return cls()

    def recognises(self, cluster: Cluster) -> bool:
        return ANNOTATION in (cluster.object["metadata"].get("annotations") or {})

    async def grant(self, cluster: Cluster) -> None:
        pass

    async def revoke(self, cluster: Cluster) -> None:
        pass


WITH_VOUCHERS = (*CATALOG, DriverEntry(VOUCHER, agent=VoucherAgentDriver.make, hub=VoucherHubDriver.make))


@dataclass
class CloudConnector(PlaneConnector):
    """Reaches the hub as a cluster whose identity a cloud vouches for: a bare name, and no `system:` in its group."""

    cluster: str = ""

    def own(self, data: SecretData) -> Transport:
        assert data[VOUCHER] == self.cluster.encode()
        return self.plane.fresh_client(self.cluster, (cluster_group_plain(self.cluster),)).transport


@dataclass
class RelayConnector(PlaneConnector):
    """Reaches the hub through something else than its API: whatever passes is counted, nothing passes beside it."""

    cluster: str = ""
    passed: Counter[str] = field(default_factory=Counter)

    def own(self, data: SecretData) -> Transport:
        assert data[VOUCHER] == self.cluster.encode()
        user = f"system:open-cluster-management:{self.cluster}:agent"
        groups = (cluster_group(self.cluster), "system:open-cluster-management:managed-clusters")
        return Relay(self.plane.fresh_client(user, groups).transport, self.passed)


@dataclass
class Relay:
    """A transport in front of another."""

    inner: Transport
    passed: Counter[str]

    async def send(self, request: Request) -> Response:
        self.passed[f"{request.method} {request.path.rpartition('/')[2]}"] += 1
        return await self.inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.stream(request) as response:
            yield response

    async def close(self) -> None:
        await self.inner.close()
