"""A registration driver of a newcomer: it has options, a connector and an annotation of its own, and no expiry.

A voucher names its issuer. The cluster writes its own, the hub records it for as long as the cluster is accepted, and
an administrator says which issuers are trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.helpers.fleet import PlaneConnector

from watchword.api.cluster import Cluster
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.names import cluster_group, cluster_group_plain
from watchword.api.resources import CONFIG_MAPS
from watchword.credentials.driver import (
    DRIVER_LIST,
    AgentContext,
    CredentialCondition,
    CredentialKind,
    DriverOption,
    HeldCredential,
    HubContext,
    NewCredential,
    ObtainResult,
    OptionType,
    SecretData,
    Settings,
    Side,
    ValidCredential,
    WantedCredential,
)
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, NotFound
from watchword.kube.kubeconfig import UserEntry
from watchword.kube.transport import Transport
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import (
    AnnotatesCluster,
    ClusterDriver,
    ConnectorContext,
    ConnectsToHub,
    ReadsHeldCredential,
)
from watchword.runtime.clock import Clock
from watchword.testing.plane import Plane

VOUCHER = "voucher"
ANNOTATION = "voucher.example.com/issuer"
RECORD = "voucher"  # the ConfigMap in the cluster's namespace on the hub

ISSUER = DriverOption(
    flag="--voucher-issuer",
    help="Who issues this cluster's voucher.",
    side=Side.CLUSTER,
    paths=(("registrationDriver", VOUCHER, "issuer"),),
    required=True,
    validate=lambda value: "" if value.islower() else "an issuer is written in lower case",
)
TRUSTED = DriverOption(
    flag="--trusted-voucher-issuers",
    help="Whose vouchers are honoured.",
    side=Side.HUB,
    type=OptionType.LIST,
    paths=((DRIVER_LIST, VOUCHER, "issuers"),),
)
SETTINGS = {ISSUER.flag: "acme"}
HUB_SETTINGS = {TRUSTED.flag: "acme,zenith"}


def voucher_text(cluster: str, issuer: str) -> bytes:
    return f"{issuer} vouches for {cluster}".encode()


@dataclass(frozen=True)
class VoucherAgentDriver:
    """Writes the voucher itself; the transport says who the cluster is."""

    clock: Clock
    issuer: str

    @classmethod
    def make(cls, context: AgentContext) -> VoucherAgentDriver:
        return cls(context.clock, ISSUER.read(context.settings))

    def user_entry(self) -> UserEntry:
        return UserEntry()

    def owned_keys(self) -> frozenset[str]:
        return frozenset({VOUCHER})

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        good = held.get(VOUCHER) == voucher_text(wanted.cluster, self.issuer)
        return ValidCredential(None, None, self._message()) if good else None

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        data = {VOUCHER: voucher_text(wanted.cluster, self.issuer)}
        return self.assess(wanted, held) or NewCredential(data, self.clock.now(), None, None, self._message())

    def _message(self) -> str:
        return f"voucher of {self.issuer} {format_validity(CredentialValidity())}"


@dataclass(frozen=True)
class VoucherHubDriver:
    """Records the voucher of an accepted cluster whose issuer is trusted."""

    client: Client
    trusted: tuple[str, ...]

    @classmethod
    def make(cls, context: HubContext) -> VoucherHubDriver:
        return cls(context.client, TRUSTED.read_list(context.settings))

    async def grant(self, cluster: Cluster) -> None:
        issuer = cluster.annotations[ANNOTATION]
        if issuer in self.trusted:
            with suppress(AlreadyExists):
                record = CONFIG_MAPS.manifest(ObjectKey(cluster.name, RECORD), data={"issuer": issuer})
                await self.client.create(CONFIG_MAPS, record)

    async def revoke(self, cluster: Cluster) -> None:
        with suppress(NotFound):
            await self.client.delete(CONFIG_MAPS, ObjectKey(cluster.name, RECORD))


@dataclass
class CloudConnector(PlaneConnector):
    """Reaches the hub as a cluster whose identity a cloud vouches for: a bare name, and no `system:` in its group."""

    cluster: str = ""

    def own(self, data: SecretData) -> Transport:
        assert self.cluster.encode() in data[VOUCHER]
        return self.plane.fresh_client(self.cluster, (cluster_group_plain(self.cluster),)).transport


@dataclass
class RelayConnector(PlaneConnector):
    """Reaches the hub through something else than its API: all requests are counted, none passes beside it."""

    cluster: str = ""
    passed: Counter[str] = field(default_factory=Counter)

    def own(self, data: SecretData) -> Transport:
        assert self.cluster.encode() in data[VOUCHER]
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


def catalog_with_vouchers(plane: Plane, kind: type[CloudConnector | RelayConnector] = CloudConnector) -> Catalog:
    """Return the catalog with one more line."""
    return Catalog((*CATALOG.drivers, VoucherDriver(lambda context: kind(plane, cluster=context.cluster))))


@dataclass
class VoucherDriver(ClusterDriver, AnnotatesCluster, ConnectsToHub, ReadsHeldCredential):
    """The driver; a test says how it connects."""

    connect: Callable[[ConnectorContext], CloudConnector | RelayConnector]
    name: str = VOUCHER
    annotations: tuple[str, ...] = (ANNOTATION,)
    aliases = ("coupon",)
    options = (ISSUER, TRUSTED)
    credential = CredentialKind(
        name="cluster voucher",
        conditions=(CredentialCondition("VoucherHonoured", "VoucherWritten"),),
        consequence="{cluster} is refused by the hub",
        renewal="renewed by its issuer",
    )

    def agent(self, context: AgentContext) -> VoucherAgentDriver:
        return VoucherAgentDriver.make(context)

    def hub(self, context: HubContext) -> VoucherHubDriver:
        return VoucherHubDriver.make(context)

    def annotate(self, settings: Settings) -> dict[str, str]:
        return {ANNOTATION: ISSUER.read(settings)}

    def connector(self, context: ConnectorContext) -> CloudConnector | RelayConnector:
        return self.connect(context)

    def read_held(self, data: SecretData) -> HeldCredential | None:
        text = data.get(VOUCHER, b"").decode()
        return HeldCredential(text, CredentialValidity()) if text else None
