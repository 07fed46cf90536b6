"""A small fleet with every kind of credential on one control plane; its programs can be killed and cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, PlaneConnector, lifetime_settings, run_fleet
from tests.simulation.history import History
from tests.simulation.network import Link, ProcessRun, SimulatedTransport
from tests.simulation.process import RESTART_AFTER, Program, SimulatedProcess

from bench.reliability.credentials import CredentialKind, CredentialPlace, read_credential
from watchword.accounts.agent.process import AccountsAgentOptions, run_accounts_agent
from watchword.accounts.hub.controllers import AccountsManagerOptions, run_accounts_manager
from watchword.accounts.hub.definition import agent_manifests
from watchword.accounts.hub.definition import install as install_accounts
from watchword.addons.definition import AddonInstance
from watchword.api.accounts import ADDON_NAME as ACCOUNTS_ADDON
from watchword.api.addon import Addon, certificate_subject
from watchword.api.cluster import Cluster
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import ADDON_NAMESPACE, ConditionType, addon_group
from watchword.api.pull_secrets import ANNOTATION_PULL_SECRET
from watchword.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.client import Client
from watchword.kube.endpoint import Endpoint
from watchword.kube.transport import Transport
from watchword.processes.agent import AgentRuntime, addon_controllers, run_agent
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.pullsecrets.process import PullSecretOptions, run_pull_secrets
from watchword.registration.agent.options import AgentOptions
from watchword.runtime.clock import Clock
from watchword.runtime.metrics import Metrics
from watchword.testing.builders import a_cluster, an_addon
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import VirtualClock, VirtualLoop

ADDON = "reporter"
HUB, ACCOUNTS_HUB, PULL_SECRETS = "hub", "accounts-hub", "pull-secrets"
REGISTRY = "registry.example:5000"
MADE_FOR_AGENT = {kind.kind: kind for kind in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, DEPLOYMENTS)}
WITHOUT_LIMIT = 10**9  # writes in an hour: how often programs write is not what is measured here


@dataclass(frozen=True, slots=True)
class FleetSize:
    """How much of each kind a fleet has."""

    clusters: int = 1  # with each driver of add-ons
    accounts: int = 1  # on the first cluster whose add-ons have certificates
    pull_secrets: int = 1
    lifetime: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Crash:
    """The first run of a program ends after so many of its writes, as kill -9 would end it."""

    process: str
    writes: int


@dataclass
class CredentialFleet:
    """Hub and clusters share the control plane; each program has its own link to it."""

    harness: FleetHarness
    size: FleetSize
    cluster_clock: Clock  # of every program that runs on a cluster
    history: History
    namespace: str
    crash: Crash | None = None
    processes: dict[str, SimulatedProcess] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    metrics: list[Metrics] = field(default_factory=list)  # of every run of a program that has some
    places: list[CredentialPlace] = field(default_factory=list)

    @property
    def plane(self) -> Plane:
        """The control plane."""
        return self.harness.plane

    @property
    def client(self) -> Client:
        """The administrator."""
        return self.plane.client()

    async def start(self) -> None:
        """Start every program, and wait until every credential was issued once."""
        await install_accounts(self.client)
        await self.client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ADDON_NAMESPACE)))
        await self._configure_pull_secrets()
        self.add_process(HUB, self._run_hub)
        self.add_process(ACCOUNTS_HUB, self._run_accounts_hub)
        self.add_process(PULL_SECRETS, self._run_pull_secrets)
        for _ in range(self.size.clusters):
            await self._add_cluster("token")
            await self._add_cluster("csr")
        for number in range(self.size.pull_secrets):
            await self._add_pull_secret(f"builder-{number}")
        for place in self.places:
            await eventually(self.client, SECRETS, place.secret, _holds_credential, within=300)

    def add_process(self, name: str, program: Program) -> None:
        """Start a program over a link of its own."""
        self.links[name] = Link(name, Random(name))
        self.processes[name] = SimulatedProcess(name, program, self.history)
        if self.crash is not None and self.crash.process == name:
            self.processes[name].first_crash = self.crash.writes
        self.processes[name].start()

    async def stop(self) -> None:
        """End every program."""
        for process in self.processes.values():
            await process.end()

    def restart_hub(self) -> None:
        """Kill the programs of the hub; each is started again after some seconds."""
        for name in (HUB, ACCOUNTS_HUB):
            self.processes[name].kill(restart_after=RESTART_AFTER)

    async def failing(self) -> list[CredentialPlace]:
        """Return the credentials that the control plane does not honour now."""
        return [place for place in self.places if not await place.works(self.plane)]

    def places_of(self, kind: CredentialKind) -> list[CredentialPlace]:
        """Return where the credentials of a kind are."""
        return [place for place in self.places if place.kind is kind]

    async def _configure_pull_secrets(self) -> None:
        data = {"registries": REGISTRY, "token-lifetime-seconds": str(int(self.size.lifetime.total_seconds()))}
        await self.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(self.pull_secret_settings, data=data))

    @property
    def pull_secret_settings(self) -> ObjectKey:
        """Where the configuration of pull secrets is."""
        return ObjectKey(self.namespace, "pull-secrets")

    async def _add_cluster(self, driver: str) -> None:
        name = self.harness.name(f"edge-{driver}")
        self.add_process(name, lambda run: self._run_agent(run, name, driver))
        await self.harness.joined(name)
        self.places.append(CredentialPlace(CredentialKind.CLUSTER, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))
        addon = await self.enable_addon(name, ADDON)
        kind = CredentialKind.ADDON_TOKEN if driver == "token" else CredentialKind.ADDON_CERTIFICATE
        self.places.append(CredentialPlace(kind, ObjectKey(name, f"{addon.name}-hub-kubeconfig")))
        if driver == "csr" and not self.places_of(CredentialKind.ACCOUNT):
            await self._add_accounts(name)

    async def enable_addon(self, cluster: str, addon: str) -> ObjectKey:
        """Enable an add-on on a cluster, and declare that it needs a credential."""
        key = ObjectKey(cluster, addon)
        await self.client.create(MANAGED_CLUSTER_ADDONS, an_addon(addon, cluster=cluster))
        patch = {"status": {"registrations": [{"type": "kubeClient"}]}}
        await self.client.patch(MANAGED_CLUSTER_ADDONS, key, patch, subresource="status")
        return key

    async def _add_accounts(self, cluster: str) -> None:
        """Enable the add-on, make what its work would make on the cluster, run its agent, and declare accounts."""
        key = await self.enable_addon(cluster, ACCOUNTS_ADDON)
        found = await eventually(
            self.client, MANAGED_CLUSTER_ADDONS, key, _says(ConditionType.REGISTRATION_APPLIED), within=90
        )
        found["status"]["namespace"] = cluster
        for obj in agent_manifests(AddonInstance(Addon.read(found), Cluster.read(a_cluster(cluster))), "watchword"):
            await self.client.create(MADE_FOR_AGENT[obj["kind"]], obj)
        self.add_process(f"{cluster}-accounts", lambda run: self._run_accounts_agent(run, cluster))
        for number in range(self.size.accounts):
            account = ObjectKey(cluster, f"robot-{number}")
            spec = {"rotation": {"validity": f"{int(self.size.lifetime.total_seconds())}s"}}
            manifest = MANAGED_SERVICE_ACCOUNTS.manifest(account, spec=spec)
            await self.client.create(MANAGED_SERVICE_ACCOUNTS, manifest)
            self.places.append(CredentialPlace(CredentialKind.ACCOUNT, account))

    async def _add_pull_secret(self, account: str) -> None:
        key = ObjectKey(self.namespace, account)
        await self.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key))
        found = await eventually(self.client, SERVICE_ACCOUNTS, key, _has_pull_secret, within=90)
        secret = ObjectKey(self.namespace, annotations_of(found)[ANNOTATION_PULL_SECRET])
        self.places.append(CredentialPlace(CredentialKind.PULL_SECRET, secret))

    def _new_metrics(self) -> Metrics:
        self.metrics.append(Metrics())
        return self.metrics[-1]

    def over_link(self, client: Client, run: ProcessRun) -> Client:
        """Return the client over the link of a program; what is sent after its end has no effect."""
        return client.over(self._wrap(client.transport, run))

    def _wrap(self, transport: Transport, run: ProcessRun) -> Transport:
        return SimulatedTransport(transport, self.links[run.actor], run, self.history)

    async def _run_hub(self, run: ProcessRun) -> None:
        options = HubOptions(
            settings=AUTOMATIC, auto_approval=True, elect=False, install=False, metrics=self._new_metrics()
        )
        client = self.over_link(self.plane.fresh_client(), run)
        await run_hub(client, options, clock=self.plane.clock, random=Random(HUB), extensions=(hub_addon_controllers,))

    async def _run_accounts_hub(self, run: ProcessRun) -> None:
        options = AccountsManagerOptions(install=False, clock=self.plane.clock, random=Random(ACCOUNTS_HUB))
        await run_accounts_manager(self.over_link(self.plane.fresh_client(), run), options)

    async def _run_pull_secrets(self, run: ProcessRun) -> None:
        options = PullSecretOptions(elect=False, config_map=self.pull_secret_settings, metrics=self._new_metrics())
        client = self.over_link(self.plane.fresh_client(), run)
        await run_pull_secrets(client, options, clock=self.cluster_clock, random=Random(PULL_SECRETS))

    async def _run_agent(self, run: ProcessRun, name: str, driver: str) -> None:
        lifetime = self.size.lifetime
        options = AgentOptions(
            name,
            hub_secret=f"hub-{name}",
            addon_namespace=name,
            addon_auth=driver,
            settings=lifetime_settings(certificate=lifetime, token=lifetime),
            elect=False,
        )
        runtime = AgentRuntime(
            clock=self.cluster_clock,
            random=Random(name),
            connector=PlaneConnector(self.plane, through=lambda transport: self._wrap(transport, run)),
            controllers=[addon_controllers],
            metrics=self._new_metrics(),
        )
        await run_agent(self.over_link(self.plane.fresh_client(), run), options, runtime=runtime)

    async def _run_accounts_agent(self, run: ProcessRun, cluster: str) -> None:
        subject = certificate_subject(cluster, ACCOUNTS_ADDON)
        hub = self.plane.fresh_client(subject.user, (addon_group(cluster, ACCOUNTS_ADDON),))
        endpoint = Endpoint("https://cluster.example:6443", self.plane.ca_pem)
        options = AccountsAgentOptions(
            cluster, cluster, endpoint, clock=self.cluster_clock, random=Random(f"accounts of {cluster}")
        )
        local = self.plane.fresh_client()
        await run_accounts_agent(self.over_link(hub, run), self.over_link(local, run), options)


@asynccontextmanager
async def open_credential_fleet(
    plane: Plane, size: FleetSize, *, skew: timedelta = timedelta(0), crash: Crash | None = None
) -> AsyncIterator[CredentialFleet]:
    """Run a fleet on a control plane; the clocks of clusters differ from the hub's by `skew` in virtual time."""
    loop = asyncio.get_running_loop()
    clock = VirtualClock(loop, skew=skew) if isinstance(loop, VirtualLoop) else plane.clock
    async with run_fleet(plane) as harness:
        history = History(loop.time, WITHOUT_LIMIT)
        fleet = CredentialFleet(harness, size, clock, history, await plane.namespace("build"), crash)
        try:
            await fleet.start()
            yield fleet
        finally:
            await fleet.stop()


def _says(type_: str) -> Callable[[Object | None], bool]:
    return lambda obj: obj is not None and is_true(obj, type_)


def _has_pull_secret(account: Object | None) -> bool:
    return ANNOTATION_PULL_SECRET in annotations_of(account or {})


def _holds_credential(secret: Object | None) -> bool:
    return secret is not None and read_credential(secret) is not None
