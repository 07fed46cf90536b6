"""A hub's gRPC server over a control plane, and agents that speak to it with grpcio."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import orjson
from tests.drivers.grpc.published_protocol import PublishedProtocol

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import (
    CLUSTER_LEASE,
    GRPC_SERVER_SERVICE_ACCOUNT,
    HUB_NAMESPACE,
    MANAGED_CLUSTERS_GROUP,
    agent_user,
    cluster_group,
    service_account_user,
)
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, LEASES, MANAGED_CLUSTERS
from watchword.drivers.grpc.event_types import DataType
from watchword.drivers.grpc.server.limits import GrpcLimits
from watchword.drivers.grpc.server.process import GrpcServerOptions, run_grpc_server
from watchword.drivers.grpc.server.tls_files import TlsFiles
from watchword.drivers.grpc.server_rbac import SERVER_RULES
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.runtime.metrics import Metrics
from watchword.testing.builders import a_cluster, a_cluster_role_binding
from watchword.testing.fleet import FleetHarness

SERVER_USER = service_account_user(HUB_NAMESPACE, GRPC_SERVER_SERVICE_ACCOUNT)
HOSTS = AlternativeNames(("localhost",), ("127.0.0.1",))
A_DAY = timedelta(days=1)
QUICK = GrpcLimits(drain_seconds=2.0)


@dataclass
class GrpcAgent:
    """A client that is not ours: grpcio, with stubs of the published protocol."""

    protocol: PublishedProtocol
    cluster: str
    channel: grpc.aio.Channel
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def stub(self) -> Any:
        return self.protocol.service(self.channel)

    def event(self, type_: str, data: Object | bytes | None, **attributes: object) -> Any:
        """Return an event as Open Cluster Management's agents build it."""
        message = self.protocol.messages.CloudEvent(
            id=str(uuid.uuid4()), source=f"{self.cluster}-agent", spec_version="1.0", type=type_
        )
        values: dict[str, object] = {"clustername": self.cluster, "originalsource": "", **attributes}
        for name, value in values.items():
            if isinstance(value, int):
                message.attributes[f"ce-{name}"].ce_integer = value
            else:
                message.attributes[f"ce-{name}"].ce_string = str(value)
        message.attributes["ce-time"].ce_timestamp.GetCurrentTime()
        if data is not None:
            message.attributes["contenttype"].ce_string = "application/json"
            message.binary_data = data if isinstance(data, bytes) else orjson.dumps(data)
        return message

    async def publish(self, type_: str, data: Object | bytes | None, **attributes: object) -> None:
        await self.send(self.event(type_, data, **attributes))

    async def send(self, event: Any) -> None:
        request = self.protocol.messages.PublishRequest(event=event)
        await self.stub.Publish(request, metadata=self.metadata, timeout=20)

    async def refused(self, type_: str, data: Object | bytes | None, **attributes: object) -> tuple[str, Object]:
        """Publish an event that is refused; return the gRPC code and the Status."""
        return await refusal(self.publish(type_, data, **attributes))

    @asynccontextmanager
    async def subscribed(self, data_type: str, *, cluster: str = "") -> AsyncIterator[Any]:
        """Subscribe and wait for the server's header, as Open Cluster Management's client does."""
        request = self.protocol.messages.SubscriptionRequest(
            source=f"{self.cluster}-agent", cluster_name=cluster or self.cluster, data_type=data_type
        )
        call = self.stub.Subscribe(request, metadata=self.metadata)
        header = await call.initial_metadata()
        assert header["subscription-id"]
        try:
            yield call
        finally:
            call.cancel()

    async def resync(self, data_type: str, *rows: Object) -> None:
        await self.publish(f"{data_type}.spec.resync_request", {"resourceVersions": list(rows)})


async def refusal(call: Any) -> tuple[str, Object]:
    """Return the code and the Status with which a call is refused, as Open Cluster Management's client reads it."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, orjson.loads(error.details() or "{}")["ErrStatus"]
    raise AssertionError("the call was not refused")


async def next_event(call: Any, *, within: float = 20.0) -> Any:
    """Return the next event that is not a heartbeat."""
    async with asyncio.timeout(within):
        while True:
            event = await call.read()
            assert event is not grpc.aio.EOF, await call.details()
            if not event.type.endswith("heartbeat"):
                return event


@dataclass
class GrpcHub:
    """The server and what tests do with it."""

    fleet: FleetHarness
    protocol: PublishedProtocol
    folder: Path
    authority: Authority
    port: int = 0
    metrics: Metrics = field(default_factory=Metrics)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    channels: list[grpc.aio.Channel] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    @property
    def client(self) -> Client:
        return self.fleet.client

    def write_files(self, roots: tuple[Authority, ...] = ()) -> TlsFiles:
        now = self.fleet.plane.clock.now()
        key = PrivateKey.generate()
        certificate = self.authority.issue_serving(key.public, HOSTS, now=now, lifetime=timedelta(days=1))
        (self.folder / "tls.key").touch(0o600)
        (self.folder / "tls.key").write_bytes(key.pem.reveal())
        (self.folder / "tls.crt").write_bytes(certificate.pem)
        bundle = b"".join(authority.certificate.pem for authority in roots or (self.authority,))
        (self.folder / "client-ca.crt").write_bytes(bundle)
        return TlsFiles(self.folder / "tls.crt", self.folder / "tls.key", self.folder / "client-ca.crt")

    async def start(self, limits: GrpcLimits = QUICK) -> None:
        """Run the server until the test ends."""
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        options = GrpcServerOptions(serve=("127.0.0.1", 0), tls=self.write_files(), limits=limits, metrics=self.metrics)
        await grant_server_rights(self.client)
        client = self.fleet.plane.fresh_client(SERVER_USER)
        self.task = asyncio.create_task(
            run_grpc_server(client, options, clock=self.fleet.plane.clock, stop=self.stop, started=started.set_result)
        )
        self.task.add_done_callback(lambda task: fail(started, task))
        self.port = await started

    async def close(self) -> None:
        self.stop.set()
        for channel in self.channels:
            await channel.close()
        if self.task is not None:
            await self.task

    def agent(
        self,
        cluster: str,
        *,
        authority: Authority | None = None,
        lifetime: timedelta = timedelta(hours=1),
        name: str = "",
    ) -> GrpcAgent:
        """Return the agent of a cluster with a certificate of the signer."""
        key, signer = PrivateKey.generate(), authority or self.authority
        subject = CertificateSubject(
            name or agent_user(cluster, "agent-1"), (cluster_group(cluster), MANAGED_CLUSTERS_GROUP)
        )
        now = self.fleet.plane.clock.now()
        certificate = signer.issue_client(key.public, subject, now=now, lifetime=lifetime)
        credentials = grpc.ssl_channel_credentials(
            self.authority.certificate.pem, private_key=key.pem.reveal(), certificate_chain=certificate.pem
        )
        return GrpcAgent(self.protocol, cluster, self._channel(credentials))

    def with_token(self, cluster: str, token: str) -> GrpcAgent:
        """Return a client with a bearer token and without a certificate."""
        channel = self._channel(grpc.ssl_channel_credentials(self.authority.certificate.pem))
        return GrpcAgent(self.protocol, cluster, channel, (("authorization", f"Bearer {token}"),))

    def anonymous(self, cluster: str) -> GrpcAgent:
        return GrpcAgent(
            self.protocol, cluster, self._channel(grpc.ssl_channel_credentials(self.authority.certificate.pem))
        )

    def _channel(self, credentials: grpc.ChannelCredentials) -> grpc.aio.Channel:
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
        channel = grpc.aio.secure_channel(f"localhost:{self.port}", credentials, options=options)
        self.channels.append(channel)
        return channel

    async def accepted(self, prefix: str = "edge") -> str:
        """Return the name of a new cluster that has everything that the hub gives an accepted one."""
        name = self.fleet.name(prefix)
        await self.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
        await self.fleet.condition(name, "HubAcceptedManagedCluster", "True")
        return name

    async def lease(self, cluster: str) -> Object:
        return await self.client.get(LEASES, ObjectKey(cluster, CLUSTER_LEASE))


async def grant_server_rights(client: Client) -> None:
    """Give the server its own rights, and no others."""
    role = CLUSTER_ROLES.manifest(ObjectKey.cluster("test-grpc-server"), rules=SERVER_RULES)
    binding = a_cluster_role_binding("test-grpc-server", role="test-grpc-server", users=[SERVER_USER])
    await client.apply(CLUSTER_ROLES, role, force=True)
    await client.apply(CLUSTER_ROLE_BINDINGS, binding, force=True)


@asynccontextmanager
async def run_grpc_hub(fleet: FleetHarness, protocol: PublishedProtocol, folder: Path) -> AsyncIterator[GrpcHub]:
    """A hub with a gRPC server; the test starts the server."""
    authority = Authority.make("open-cluster-management.io/grpc", now=fleet.plane.clock.now())
    hub = GrpcHub(fleet, protocol, folder, authority)
    fleet.start_hub()
    try:
        yield hub
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await hub.close()


LEASE = DataType.LEASE.value
CLUSTER = DataType.MANAGED_CLUSTER.value


def fail(started: asyncio.Future[int], task: asyncio.Task[None]) -> None:
    """Let a test that waits for the start see why there was none."""
    if not started.done():
        started.set_exception(task.exception() or RuntimeError("the server ended"))
