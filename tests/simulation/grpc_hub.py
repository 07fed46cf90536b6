"""A hub that is reached over gRPC: its server, and the ways in for agents."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace
from tests.simulation.history import History
from tests.simulation.memory_network import SERVER, MemoryNetwork, ServerEnd, SimulatedLoop
from tests.simulation.network import Link, ProcessRun, SimulatedTransport
from tests.simulation.planes import GRPC_SERVER, JOINING, HubPlane, StoreReader, replayable_client
from tests.simulation.timing import follow_options

from watchword.api.http import Request, Response
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.certificates.issued_certificate import CERTIFICATE, KEY
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import HubContext, SecretData
from watchword.kube.client import Client
from watchword.kube.credentials import Credential
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.tls import ClientCertificate
from watchword.kube.transport import Transport
from watchword.pki.certificates import Certificate, parse_certificate, split_bundle, verify_chain
from watchword.pki.errors import PkiError
from watchword.registration.driver import HubDriver
from watchword.registration.grpc.client.channel import EventChannel, GrpcCredential
from watchword.registration.grpc.client.object_store import ObjectStores
from watchword.registration.grpc.client.transport import GrpcTransport
from watchword.registration.grpc.config import GrpcConfig, GrpcEndpoint, bootstrap_config, parse_config
from watchword.registration.grpc.connector import GrpcConnector
from watchword.registration.grpc.driver import BUNDLE_KEY, CA_BUNDLE, SERVING_SECRET, GrpcDriver
from watchword.registration.grpc.errors import TlsFilesUnusable
from watchword.registration.grpc.hub import make_hub_driver
from watchword.registration.grpc.server.listener import GrpcLimits, TlsFiles
from watchword.registration.grpc.server.process import GrpcServerOptions, run_grpc_server
from watchword.runtime.clock import Clock

HEARTBEAT, HEALTH_TIMEOUT = timedelta(hours=4), timedelta(hours=9)  # seconds in production
RECHECK = timedelta(hours=2)
NO_PINGS = 10.0 * 365 * 86400  # seconds: the network tells a server which of its clients fell silent
HOSTS = ("grpc0.simulation", "grpc1.simulation")
LIMITS = GrpcLimits(heartbeat_seconds=HEARTBEAT.total_seconds(), ping_seconds=NO_PINGS)
PORT = 443
MOUNT_EVERY = timedelta(seconds=60)  # a kubelet looks at Secrets and ConfigMaps so often

CRASH_LOOP = timedelta(minutes=5)  # that a kubelet waits before it starts a program again that ends at once


class MountedFiles(TlsFiles):
    """The Secret and the ConfigMap of the server, in its pod; what is deleted stays in a pod that runs."""

    def __init__(self, folder: Path, stored: StoreReader, clock: Clock) -> None:
        super().__init__(folder / "tls.crt", folder / "tls.key", folder / BUNDLE_KEY)
        self.shown: Certificate | None = None
        self._stored, self._clock = stored, clock
        self._mounted: tuple[datetime, dict[Path, bytes]] = clock.now() - MOUNT_EVERY, {}

    @property
    def is_complete(self) -> bool:
        """Whether there is something to mount: without it no pod starts."""
        return set(self._content()) == {self.certificate, self.key, self.client_roots}

    def certificate_shown(self) -> Certificate:
        """Return what a client sees now."""
        self.context()
        if self.shown is None:
            raise ConnectionResetError("the server has no certificate")
        return self.shown

    def _content(self) -> dict[Path, bytes]:
        data = decode_data(self._stored.get(SECRETS, SERVING_SECRET))
        bundle = ((self._stored.get(CONFIG_MAPS, CA_BUNDLE) or {}).get("data") or {}).get(BUNDLE_KEY)
        found = {self.certificate: data.get("tls.crt"), self.key: data.get("tls.key")}
        found[self.client_roots] = None if bundle is None else bundle.encode()
        return {path: content for path, content in found.items() if content is not None}

    def _version(self) -> tuple[tuple[int, int], ...]:
        at, known = self._mounted
        if self._clock.now() - at >= MOUNT_EVERY:
            content = self._content()
            for path, data in content.items():
                if known.get(path) != data:
                    path.unlink(missing_ok=True)
                    path.write_bytes(data)
                    path.chmod(0o600)
            self._mounted = self._clock.now(), known | content
        return tuple((hash(self._mounted[1].get(path)), 0) for path in (self.certificate, self.key, self.client_roots))

    def _read(self, version: tuple[tuple[int, int], ...]) -> Any:
        material = super()._read(version)
        self.shown = parse_certificate(self.certificate.read_bytes())
        return material


@dataclass
class SimulatedGrpc:
    """The gRPC servers of a hub, under one name, and what administrators give to clusters that use them."""

    hub: HubPlane
    clock: Clock
    history: History
    random: Random
    moves: int = 0
    network: MemoryNetwork = field(init=False)
    stored: StoreReader = field(init=False)
    given_authorities: bytes = b""  # in the bootstrap Secrets of clusters
    lost: list[Certificate] = field(default_factory=list)  # authorities that a restored backup does not hold

    def __post_init__(self) -> None:
        self.network = MemoryNetwork(Random(self.random.random()), lambda: (self.host, PORT))
        self.stored = StoreReader(self.hub.store)
        loop = asyncio.get_running_loop()
        if isinstance(loop, SimulatedLoop):
            loop.network = self.network

    @property
    def host(self) -> str:
        """The name of the server, another one after each move; its certificate is for all of them."""
        return HOSTS[self.moves % len(HOSTS)]

    @property
    def published_authorities(self) -> bytes:
        """The authorities of servers and agents, as the hub publishes them; empty: it does not."""
        found = str(((self.stored.get(CONFIG_MAPS, CA_BUNDLE) or {}).get("data") or {}).get(BUNDLE_KEY) or "").encode()
        try:
            split_bundle(found)
        except PkiError:
            return b""
        return found

    def is_lost(self, certificate: Certificate) -> bool:
        """Whether an authority signed it that a restored backup does not hold: a person has to let the cluster in."""
        try:
            return bool(verify_chain(certificate, self.lost, now=certificate.not_after))
        except PkiError:
            return False

    @property
    def endpoint(self) -> GrpcEndpoint:
        """Where the server is, as administrators say."""
        authorities = self.given_authorities or self.published_authorities
        return GrpcEndpoint(url=f"{self.host}:{PORT}", ca_data=authorities, health_timeout=HEALTH_TIMEOUT)

    async def serve(self, run: ProcessRun, link: Link, stop: asyncio.Event) -> None:
        """Run one replica of the server, as its pod does."""
        with TemporaryDirectory() as folder:
            files = MountedFiles(Path(folder), self.stored, self.clock)
            while not files.is_complete:  # noqa: ASYNC110 - a store rings no bell
                await asyncio.sleep(MOUNT_EVERY.total_seconds())
            SERVER.set(ServerEnd(self.clock, run, files.certificate_shown, files.roots))
            randomness = Random(self.random.random())
            inner = self.hub.as_token(GRPC_SERVER.token.reveal())
            client = Client(SimulatedTransport(inner, link, run, self.history), random=randomness)
            options = GrpcServerOptions(serve=("", PORT), tls=files, limits=LIMITS, follow=follow_options(randomness))
            try:
                await run_grpc_server(client, options, clock=self.clock, stop=stop)
            except TlsFilesUnusable:  # it is started again until they are mended
                await asyncio.sleep(CRASH_LOOP.total_seconds())

    def connect(self, held: SecretData, cluster: str) -> Client:
        """Return a client with the certificate of a cluster's Secret, that no fault reaches."""
        certificate = ClientCertificate(held[CERTIFICATE], Sensitive(held[KEY]))
        channel = EventChannel(self.endpoint, GrpcCredential(certificate=certificate), cluster=cluster)
        self.show(channel, certificate)
        return replayable_client(GrpcTransport(channel, ObjectStores()))

    def show(self, channel: EventChannel, certificate: ClientCertificate) -> None:
        """Let the network know which certificate a client shows: a TLS context does not tell."""
        context = channel._channel._ssl
        if isinstance(context, ssl.SSLContext):
            self.network.shown[context] = parse_certificate(certificate.chain).der


class PatientGrpcDriver(GrpcDriver):
    """The driver of a hub that looks at its authority a few times a day; six times an hour in production."""

    def hub(self, context: HubContext) -> HubDriver:
        made = make_hub_driver(context)
        return replace(made, authority=replace(made.authority, recheck=RECHECK))


class SimulatedGrpcConnector(GrpcConnector, kw_only=True):
    """The connector of the driver, over the road of one cluster; the API server is reached as other clusters do."""

    grpc: SimulatedGrpc
    direct: ApiServerConnector  # what add-ons use
    link: Link
    run: ProcessRun
    channels: list[EventChannel] = msgspec.field(default_factory=list)  # of this run

    bootstrap_credential = None  # type: ignore[assignment]  # asked every five seconds; `joining` follows by itself

    def entry(self) -> ClusterEntry:
        return self.direct.entry()

    def with_credential(self, hub: ClusterEntry, credential: Credential) -> Client:
        return self.direct.with_credential(hub, credential)

    def has_bootstrap_credential(self) -> bool:
        return bool(self.grpc.endpoint.ca_data)

    def joining(self) -> Transport:
        """Return a way in that follows `config.yaml`: an agent uses a changed one within seconds."""
        return FollowingTransport(self.grpc, super().joining)

    def _read(self) -> tuple[bytes, GrpcConfig]:
        content = bootstrap_config(self.grpc.endpoint, JOINING.token)
        return content, parse_config(content)

    def _configured(self) -> GrpcEndpoint | None:  # asked a hundred times a day: reading YAML takes a millisecond
        return self.grpc.endpoint if self.has_bootstrap_credential() else None

    def _connect(self, endpoint: GrpcEndpoint, credential: GrpcCredential) -> Transport:
        transport = super()._connect(endpoint, credential)
        if isinstance(transport, GrpcTransport):
            self.channels.append(transport._channel)
            if credential.certificate is not None:
                self.grpc.show(transport._channel, credential.certificate)
        return SimulatedTransport(transport, self.link, self.run, self.grpc.history)

    def abandon(self) -> None:
        """Close what a process leaves behind that was killed."""
        for channel in self.channels:
            channel.close()


class ApiServerConnector(Protocol):
    """Reaches the hub's API server."""

    def entry(self) -> ClusterEntry: ...

    def with_credential(self, hub: ClusterEntry, credential: Credential) -> Client: ...


class FollowingTransport:
    """Goes to the server that `config.yaml` names at the moment of a request."""

    def __init__(self, grpc: SimulatedGrpc, connect: Callable[[], Transport]) -> None:
        self._grpc, self._connect = grpc, connect
        self._current: tuple[GrpcEndpoint, Transport] = grpc.endpoint, connect()

    async def send(self, request: Request) -> Response:
        """Send one request."""
        return await (await self._find()).send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Open a stream."""
        async with (await self._find()).stream(request) as response:
            yield response

    async def close(self) -> None:
        """Close what is below."""
        await self._current[1].close()

    async def _find(self) -> Transport:
        if self._current[0] != self._grpc.endpoint:
            before, self._current = self._current[1], (self._grpc.endpoint, self._connect())
            await before.close()
        return self._current[1]
