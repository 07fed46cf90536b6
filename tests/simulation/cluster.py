"""One managed cluster of a simulated fleet: its control plane, its agent, and the agent's way to the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from msgspec import Struct
from tests.helpers.fleet import lifetime_settings
from tests.simulation.history import History
from tests.simulation.network import Link, ProcessRun, SimulatedTransport
from tests.simulation.planes import HubPlane, ManagedPlane, SeededKeys, StoreReader
from tests.simulation.process import SimulatedProcess
from tests.simulation.timing import PATIENCE, SIGNER, follow_options

from watchword.api.http import Peer
from watchword.api.meta import ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.certificates.decisions import CERTIFICATE
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.credentials.secret_data import decode_data
from watchword.kube.client import Client
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.transport import InProcessTransport, Transport
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import PkiError
from watchword.processes.agent import AgentRuntime, ControllerFactory, addon_controllers, run_agent, work_controllers
from watchword.registration.agent.options import AgentOptions
from watchword.runtime.backoff import Quarantine
from watchword.testing.virtual_time import VirtualClock

AGENT_PILLARS = ("registration", "addons", "works")
"""Whose controllers are those of the cluster's agent."""

SECRET = ObjectKey(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET)


class ClusterProfile(Struct, frozen=True):
    """What sets one cluster apart from the others."""

    name: str
    certificate_lifetime: timedelta
    token_life: timedelta
    pillars: tuple[str, ...] = ("registration",)  # in which it takes part
    addon: str = ""  # the driver of its add-on; empty: it has none


@dataclass
class SimulatedCluster:
    """A cluster; faults happen to its links, its clock and its agent."""

    profile: ClusterProfile
    plane: ManagedPlane
    hub: HubPlane
    clock: VirtualClock
    history: History
    random: Random
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

    def over(self, transport: Transport, link: Link, run: ProcessRun) -> Client:
        """Return the client of a program on this cluster over one of its links."""
        return Client(SimulatedTransport(transport, link, run, self.history), random=Random(self.random.random()))

    async def _run(self, run: ProcessRun) -> None:
        keys = SeededKeys(Random(self.random.random()))
        randomness = Random(self.random.random())
        cluster = SimulatedTransport(self.plane.administrator().transport, self.to_cluster, run, self.history)
        runtime = AgentRuntime(
            clock=self.clock,
            random=randomness,
            connector=_Connector(self.hub, self.to_hub, run, self.history),
            controllers=self._controllers(),
            new_key=keys,
            follow=follow_options(randomness),
            quarantine=Quarantine(backoff=PATIENCE),
            signer_timing=SIGNER,
        )
        await run_agent(Client(cluster, random=randomness), self._options(), runtime=runtime)

    def _options(self) -> AgentOptions:
        profile = self.profile
        return AgentOptions(
            profile.name,
            agent_name="agent",
            addon_auth=profile.addon or "csr",
            settings=lifetime_settings(certificate=profile.certificate_lifetime, token=profile.token_life),
            feedback_interval=timedelta(hours=12),
            work_recheck=timedelta(days=2),
            elect=False,
        )

    def _controllers(self) -> Sequence[ControllerFactory]:
        pillars = set(self.profile.pillars)
        controllers: list[ControllerFactory] = [addon_controllers] if pillars & {"addons", "accounts"} else []
        return [*controllers, work_controllers] if pillars & {"works", "accounts"} else controllers


class _Connector(Struct, frozen=True):
    """Reaches the hub over the cluster's network, with the agent's present identity."""

    hub: HubPlane
    link: Link
    run: ProcessRun
    history: History

    def entry(self) -> ClusterEntry:
        return ClusterEntry(self.hub.server, ca_data=self.hub.ca_pem)

    def has_bootstrap_credential(self) -> bool:
        return True

    def joining(self) -> Transport:
        return self._over(self.hub.joining())

    def own(self, data: SecretData) -> Transport:
        if not data.get(KUBECONFIG):
            raise ConfigError("the Secret has no kubeconfig")
        return self._over(as_certificate(self.hub, data[CERTIFICATE]))

    def with_token(self, _: ClusterEntry, token: Sensitive[str]) -> Client:
        return Client(self._over(self.hub.as_token(token.reveal())), random=self.link.random)

    def _over(self, transport: InProcessTransport) -> SimulatedTransport:
        return SimulatedTransport(transport, self.link, self.run, self.history)


def as_certificate(hub: HubPlane, pem: bytes) -> InProcessTransport:
    """Return a way into the hub with a client certificate; who shows it, has its key."""
    peer = Peer(address="simulated", certificate_chain=(parse_certificate(pem).der,))
    return hub.transport().with_identity(peer=peer)
