"""One managed cluster of a simulated fleet: its control plane, its agent, and the agent's way to the hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from msgspec import Struct
from tests.helpers.fleet import lifetime_settings
from tests.simulation.eks import EksTransport, SimulatedAws, eks_pair, eks_settings
from tests.simulation.grpc_hub import SimulatedGrpc, SimulatedGrpcConnector
from tests.simulation.history import History
from tests.simulation.memory_network import CLIENT, ClientEnd
from tests.simulation.network import Link, ProcessRun, SimulatedTransport
from tests.simulation.planes import HubPlane, ManagedPlane, SeededKeys, StoreReader, replayable_client
from tests.simulation.process import SimulatedProcess
from tests.simulation.timing import IDLE_CHECK, PATIENCE, SIGNER, follow_options

from watchword.api.http import Peer, Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET
from watchword.api.resources import SECRETS
from watchword.credentials.certificates.agent import CERTIFICATE
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.discovery.discover import ONE_TRY
from watchword.kube.client import Client
from watchword.kube.credentials import Credential
from watchword.kube.errors import ConfigError, Unreachable
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.transport import InProcessTransport, Transport
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import PkiError
from watchword.processes.agent import AgentRuntime, ControllerFactory, addon_controllers, run_agent, work_controllers
from watchword.registration.agent.options import AgentOptions
from watchword.registration.aws_irsa.options import ClusterPair
from watchword.registration.driver import HubConnector, KubeconfigConnector
from watchword.runtime.work_queue import Quarantine
from watchword.testing.virtual_time import VirtualClock

DRIVERS = ("aws-irsa", "grpc")
"""Pillars by whose driver some clusters register, instead of by certificate."""

AGENT_PILLARS = ("registration", "addons", "works", "ocm", *DRIVERS)
"""Whose controllers are those of the cluster's agent."""

NOT_PUBLISHED = Response(
    404, (("Content-Type", "application/json"),), b'{"kind":"Status","status":"Failure","code":404}'
)

SECRET = ObjectKey(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET)


class ClusterProfile(Struct, frozen=True):
    """What sets one cluster apart from the others."""

    name: str
    certificate_lifetime: timedelta
    token_life: timedelta
    pillars: tuple[str, ...] = ("registration",)  # in which it takes part
    addon: str = ""  # the driver of its add-on; empty: it has none
    driver: str = "csr"  # by which it registers


@dataclass
class SimulatedCluster:
    """A cluster; faults happen to its links, its clock and its agent."""

    profile: ClusterProfile
    plane: ManagedPlane
    hub: HubPlane
    clock: VirtualClock
    history: History
    random: Random
    aws: SimulatedAws | None = None
    grpc: SimulatedGrpc | None = None
    to_hub: Link = field(init=False)
    to_cluster: Link = field(init=False)
    agent: SimulatedProcess = field(init=False)
    stored: StoreReader = field(init=False)

    def __post_init__(self) -> None:
        self.to_hub = Link(f"{self.name} to hub", Random(self.random.random()))
        self.to_cluster = Link(f"{self.name} to itself", Random(self.random.random()))
        served = tuple(name for name in self.profile.pillars if name in AGENT_PILLARS)
        self.agent = SimulatedProcess(self.name, self._run, self.history, served, self.name)
        self.stored = StoreReader(self.plane.store)

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.profile.name

    @property
    def links(self) -> tuple[Link, Link]:
        """Every road that the agent uses."""
        return self.to_hub, self.to_cluster

    async def stop(self) -> None:
        """End the agent and the control plane."""
        await self.agent.end()
        await self.plane.stop()

    def held(self) -> SecretData:
        """Return what the Secret of the cluster's own credential holds."""
        return decode_data(self.stored.get(SECRETS, SECRET))

    def certificate(self) -> Certificate | None:
        """Return the cluster's certificate, None when it has none that can be read."""
        try:
            return parse_certificate(self.held()[CERTIFICATE])
        except (KeyError, PkiError):
            return None

    def client(self) -> Client:
        """Return a client of the cluster that no fault reaches."""
        return self.plane.administrator()

    @property
    def eks_pair(self) -> ClusterPair | None:
        """The roles by which the cluster reaches the hub; None: it registers otherwise."""
        return None if self.profile.driver != "aws-irsa" else eks_pair(self.name)

    def as_itself(self, acting_for: str = "") -> Client | None:
        """Return a client of the hub with the cluster's own credential, that no fault reaches; None: it has none."""
        if self.aws is not None and self.eks_pair is not None:
            return replayable_client(EksTransport(self.hub, self.aws, self.eks_pair))
        if self.certificate() is None:
            return None
        if self.grpc is not None and self.profile.driver == "grpc":
            try:
                return self.grpc.connect(self.held(), acting_for or self.name)
            except ConfigError:  # its key is damaged
                return None
        return replayable_client(as_certificate(self.hub, self.held()[CERTIFICATE]))

    def over(self, transport: Transport, link: Link, run: ProcessRun) -> Client:
        """Return the client of a program on this cluster over one of its links."""
        return Client(SimulatedTransport(transport, link, run, self.history), random=Random(self.random.random()))

    async def _run(self, run: ProcessRun) -> None:
        keys = SeededKeys(Random(self.random.random()))
        randomness = Random(self.random.random())
        cluster = SimulatedTransport(self.plane.administrator().transport, self.to_cluster, run, self.history)
        async with self._connector(run) as connector:
            runtime = AgentRuntime(
                clock=self.clock,
                random=randomness,
                connector=connector,
                client_factory=_AnonymousClients(self.hub, self.to_hub),
                controllers=self._controllers(),
                new_key=keys,
                follow=follow_options(randomness),
                quarantine=Quarantine(backoff=PATIENCE),
                signer_timing=SIGNER,
                endpoint_check=IDLE_CHECK,
                cluster_check=IDLE_CHECK,
            )
            await run_agent(Client(cluster, random=randomness), self._options(), runtime=runtime)

    @asynccontextmanager
    async def _connector(self, run: ProcessRun) -> AsyncIterator[HubConnector]:
        """Provide the way to the hub of one run; what it holds is gone with the process."""
        direct = _Connector(self, run)
        if self.grpc is None or self.profile.driver != "grpc":
            yield direct
            return
        CLIENT.set(ClientEnd(self.clock, run, self.to_hub))
        connector = SimulatedGrpcConnector(
            self.name, KubeconfigConnector(None), grpc=self.grpc, direct=direct, link=self.to_hub, run=run
        )
        try:
            yield connector
        finally:
            connector.abandon()

    def _options(self) -> AgentOptions:
        profile = self.profile
        return AgentOptions(
            profile.name,
            agent_name="agent",
            registration_auth=profile.driver,
            addon_auth=profile.addon or "csr",
            settings={
                **lifetime_settings(certificate=profile.certificate_lifetime, token=profile.token_life),
                **(eks_settings(profile.name) if self.eks_pair is not None else {}),
            },
            feedback_interval=timedelta(hours=12),
            work_recheck=timedelta(days=2),
            elect=False,
        )

    def _controllers(self) -> Sequence[ControllerFactory]:
        pillars = set(self.profile.pillars)
        controllers: list[ControllerFactory] = [addon_controllers] if pillars & {"addons", "accounts"} else []
        return [*controllers, work_controllers] if pillars & {"works", "accounts"} else controllers


@dataclass
class AddressedTransport:
    """Reaches the hub only while it is at an address: it may move."""

    hub: HubPlane
    address: str
    inner: Transport

    async def send(self, request: Request) -> Response:
        """Send one request."""
        self._require_address()
        return await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Open a stream."""
        self._require_address()
        async with self.inner.stream(request) as response:
            yield response

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _require_address(self) -> None:
        if self.address != self.hub.server:
            raise Unreachable(f"nothing answers at {self.address}", maybe_processed=False)


class _AnonymousClients(Struct, frozen=True):
    """Looks whether the hub is at an address; it publishes nothing there."""

    hub: HubPlane
    link: Link

    def unverified(self, server: str) -> Client:
        return self.verified(server, b"")

    def verified(self, server: str, ca: bytes) -> Client:
        del ca
        hidden = InProcessTransport(self._answer)
        return Client(AddressedTransport(self.hub, server, hidden), retry=ONE_TRY, random=self.link.random)

    async def _answer(self, _: Request) -> Response:
        if self.link.cuts or not self.hub.is_up:
            raise Unreachable("the hub does not answer", maybe_processed=False)
        return NOT_PUBLISHED


class _Connector(Struct, frozen=True):
    """Reaches the hub over the cluster's network, with the agent's present identity."""

    member: SimulatedCluster
    run: ProcessRun

    def entry(self) -> ClusterEntry:
        return ClusterEntry(self.member.hub.server, ca_data=self.member.hub.ca_pem)

    def has_bootstrap_credential(self) -> bool:
        return True

    def joining(self) -> Transport:
        """Return a way in that follows the bootstrap kubeconfig: an agent uses a changed one within seconds."""
        return SimulatedTransport(self.member.hub.joining(), self.member.to_hub, self.run, self.member.history)

    def own(self, data: SecretData) -> Transport:
        member, pair = self.member, self.member.eks_pair
        entry = parse_kubeconfig(data.get(KUBECONFIG, b""), environment={}).choose().cluster
        if member.aws is not None and pair is not None:
            return self._over(EksTransport(member.hub, member.aws, pair), entry.server)
        return self._over(as_certificate(member.hub, data[CERTIFICATE]), entry.server)

    def with_credential(self, entry: ClusterEntry, credential: Credential) -> Client:
        hub, certificate = self.member.hub, credential.certificate
        identity = hub.transport().with_identity(authorization=credential.authorization)
        shown = identity if certificate is None else as_certificate(hub, certificate.chain)
        return Client(self._over(shown, entry.server), random=self.member.to_hub.random)

    def _over(self, transport: Transport, address: str) -> SimulatedTransport:
        addressed = AddressedTransport(self.member.hub, address, transport)
        return SimulatedTransport(addressed, self.member.to_hub, self.run, self.member.history)


def as_certificate(hub: HubPlane, pem: bytes) -> InProcessTransport:
    """Return a way into the hub with a client certificate; who shows it, has its key."""
    peer = Peer(address="simulated", certificate_chain=(parse_certificate(pem).der,))
    return hub.transport().with_identity(peer=peer)
