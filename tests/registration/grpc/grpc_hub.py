"""A hub's gRPC server over a control plane, and agents that speak to it with grpcio."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import orjson
from msgspec.structs import replace
from tests.helpers.fleet import FleetHarness
from tests.registration.grpc.published_protocol import PublishedProtocol

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import (
    BOOTSTRAP_NAMESPACE,
    BOOTSTRAP_SERVICE_ACCOUNT,
    CLUSTER_LEASE,
    GRPC_SERVER_SERVICE_ACCOUNT,
    GRPC_SIGNER,
    HUB_NAMESPACE,
    MANAGED_CLUSTERS_GROUP,
    Label,
    agent_user,
    cluster_group,
    service_account_user,
)
from watchword.api.rbac import rules_of
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    EVENTS,
    LEASES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339, rfc3339_micro
from watchword.credentials.certificates.requests import CertificateSpec, certificate_request_manifest
from watchword.kube.access_reviews import review_token
from watchword.kube.client import Client
from watchword.kube.tokens import request_token
from watchword.kube.transport import Transport
from watchword.pki.authority import Authority
from watchword.pki.certificates import parse_certificate
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CLIENT_USAGES, AlternativeNames, CertificateSubject
from watchword.registration.grpc.cloud_events import DataType
from watchword.registration.grpc.driver import SERVER_RULES
from watchword.registration.grpc.server.listener import GrpcLimits, TlsFiles
from watchword.registration.grpc.server.process import GrpcServerOptions, run_grpc_server
from watchword.registration.hub import cluster_rbac
from watchword.runtime.metrics import Metrics
from watchword.testing.builders import a_cluster, a_cluster_role_binding, a_config_map, a_namespace, a_service_account

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
        assert header["subscription-id"], await call.details()
        try:
            yield call
        finally:
            call.cancel()

    @asynccontextmanager
    async def unsubscribed(self, data_type: str, *, cluster: str = "") -> AsyncIterator[Any]:
        """Ask for a subscription that is refused."""
        request = self.protocol.messages.SubscriptionRequest(cluster_name=cluster or self.cluster, data_type=data_type)
        call = self.stub.Subscribe(request, metadata=self.metadata)
        try:
            yield call
        finally:
            call.cancel()

    async def resync(self, data_type: str, *rows: Object) -> None:
        await self.publish(f"{data_type}.spec.resync_request", {"resourceVersions": list(rows)})


async def refusal(call: Any, *, raw: bool = False) -> tuple[str, Object]:
    """Return the code and the Status with which a call is refused, as Open Cluster Management's client reads it."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, {} if raw else orjson.loads(error.details() or "{}")["ErrStatus"]
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

    async def start(
        self, limits: GrpcLimits = QUICK, *, through: Callable[[Transport], Transport] = lambda transport: transport
    ) -> None:
        """Run the server until the test ends; `through` is between it and the API server."""
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        options = GrpcServerOptions(serve=("127.0.0.1", 0), tls=self.write_files(), limits=limits, metrics=self.metrics)
        await grant_server_rights(self.client)
        client = self.fleet.plane.fresh_client(SERVER_USER, ("system:serviceaccounts",))
        client = client.over(through(client.transport))
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

    async def accepted_and_left_alone(self) -> str:
        """Return such a cluster on a hub whose controllers have ended: versions that a test reads stay the newest."""
        name = await self.accepted()
        await self.fleet.stop(*self.fleet.tasks)
        return name

    def limits(self, **changes: Any) -> GrpcLimits:
        return replace(QUICK, **changes)

    def new_authority(self) -> Authority:
        return Authority.make("successor", now=self.fleet.plane.clock.now())

    def condition(self, type_: str) -> Object:
        now = rfc3339(self.fleet.plane.clock.now())
        return {"type": type_, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now}

    def event(self, name: str, cluster: str) -> Object:
        return EVENTS.manifest(
            ObjectKey(cluster, name),
            eventTime=rfc3339_micro(self.fleet.plane.clock.now()),
            reportingController="test.example.com/agent",
            reportingInstance="agent-1",
            action="Start",
            reason="Started",
            type="Normal",
            note="the agent started",
            regarding={"kind": "Lease", "namespace": cluster, "name": CLUSTER_LEASE},
        )

    async def work(self, agent: GrpcAgent, name: str) -> Object:
        """Create a work and wait until the server has seen it."""
        async with agent.subscribed(WORK) as call:
            created = await self.client.create(MANIFEST_WORKS, a_work(name, agent.cluster))
            await next_event(call)
        return created

    @property
    def bootstrap_user(self) -> str:
        return service_account_user(BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT)

    async def bootstrap_token(self) -> str:
        """Return a token of the account by which clusters join."""
        account = ObjectKey(BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT)
        await self.client.apply(NAMESPACES, a_namespace(account.namespace), force=True)
        await self.client.apply(
            SERVICE_ACCOUNTS, a_service_account(account.name, namespace=account.namespace), force=True
        )
        return (await request_token(self.client, account, expiration_seconds=3600)).token.reveal()

    async def allow_tokens(self, cluster: str, account: str) -> None:
        """Give a cluster the right to tokens of an account, as the token driver does."""
        await self.client.create(SERVICE_ACCOUNTS, a_service_account(account, namespace=cluster))
        tokens = {"apiGroups": [""], "resources": ["serviceaccounts/token"]}
        rules = [{**tokens, "verbs": ["create"], "resourceNames": [account]}, {**tokens, "verbs": ["subscribe"]}]
        reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": "tokens"}
        key = ObjectKey(cluster, "tokens")
        await self.client.create(ROLES, ROLES.manifest(key, rules=rules))
        subjects = cluster_rbac.cluster_subjects(cluster)
        await self.client.create(ROLE_BINDINGS, ROLE_BINDINGS.manifest(key, roleRef=reference, subjects=subjects))

    async def user_of(self, token: str) -> str:
        found = await review_token(self.client, Sensitive(token))
        return "" if found is None else found.username

    @asynccontextmanager
    async def replica(self) -> AsyncIterator[GrpcHub]:
        """Run another server for the same hub."""
        other = GrpcHub(self.fleet, self.protocol, self.folder, self.authority)
        await other.start()
        try:
            yield other
        finally:
            await other.close()

    async def lease(self, cluster: str) -> Object:
        return await self.client.get(LEASES, ObjectKey(cluster, CLUSTER_LEASE))


def serves(host: str) -> Callable[[Object | None], bool]:
    """Return whether a Secret holds a serving certificate for a host; other tests leave one of another host."""
    return lambda obj: obj is not None and host in parse_certificate(base64.b64decode(obj["data"]["tls.crt"])).names.dns


async def grant_server_rights(client: Client) -> None:
    """Give the server its own rights, and no others."""
    role = CLUSTER_ROLES.manifest(ObjectKey.cluster("test-grpc-server"), rules=rules_of(SERVER_RULES))
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


ADDON = DataType.ADDON.value
CLUSTER = DataType.MANAGED_CLUSTER.value
CSR = DataType.CERTIFICATE_REQUEST.value
EVENT = DataType.EVENT.value
LEASE = DataType.LEASE.value
TOKEN = DataType.TOKEN_REQUEST.value
WORK = DataType.MANIFEST_BUNDLE.value


def a_work(name: str, cluster: str) -> Object:
    """Return a ManifestWork with one ConfigMap."""
    manifest = a_config_map("settings", namespace="default", data={"a": "b"})
    return MANIFEST_WORKS.manifest(ObjectKey(cluster, name), spec={"workload": {"manifests": [manifest]}})


def a_certificate_request(
    cluster: str, key: PrivateKey, *, signer: str = GRPC_SIGNER, user: str = "", label: str = ""
) -> Object:
    """Return the request of a cluster's agent."""
    spec = CertificateSpec(
        CertificateSubject(user or agent_user(cluster, "agent-1"), (cluster_group(cluster), MANAGED_CLUSTERS_GROUP)),
        signer,
        usages=CLIENT_USAGES,
        labels={Label.CLUSTER_NAME: label or cluster},
    )
    return certificate_request_manifest(spec, key)


def fail(started: asyncio.Future[int], task: asyncio.Task[None]) -> None:
    """Let a test that waits for the start see why there was none."""
    if not started.done():
        started.set_exception(task.exception() or RuntimeError("the server ended"))
