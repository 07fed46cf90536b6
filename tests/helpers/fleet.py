"""A hub with its agents over one control plane, run as tasks of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, TypeAlias

from tests.helpers.collections import delete_collection
from tests.helpers.leak_search import LeakSearch
from tests.helpers.plane_image import install_once

from watchword.addons.token.driver import LIFETIME as TOKEN_LIFETIME
from watchword.api.accounts import ACCOUNTS_GATE
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.cluster import Cluster
from watchword.api.crds import MANAGED_CRDS
from watchword.api.http import Peer
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Label, service_account_user
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    KLUSTERLETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.credentials.certificates.agent import LIFETIME as CERTIFICATE_LIFETIME
from watchword.credentials.driver import KUBECONFIG, SecretData, Settings
from watchword.credentials.evidence import connect_with
from watchword.kube.client import Client
from watchword.kube.connect import credentials_of, make_client
from watchword.kube.credentials import Credential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import NotFound
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.transport import InProcessTransport, Transport
from watchword.operator.bundles import operator_bundle
from watchword.operator.cluster_manager import CONTROLLER, hub_manifests
from watchword.operator.klusterlet import agent_manifests
from watchword.pki.certificates import parse_certificate
from watchword.processes.agent import AgentRuntime, ControllerFactory, run_agent
from watchword.processes.hub import HubExtension, HubOptions, run_hub
from watchword.registration.agent.options import AgentOptions
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.csr.driver import USERS
from watchword.registration.driver import HubConnector
from watchword.registration.hub import installation
from watchword.registration.hub.cluster_rbac import rule
from watchword.runtime.clock import Clock
from watchword.runtime.manifests import apply_manifests, establish_crds
from watchword.runtime.metrics import Metrics
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

BOOTSTRAP_USER = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
AGENTS_NAMESPACE = "open-cluster-management-agent"
INSTALLATION = "fleet"  # the name of its ClusterManager and Klusterlet
HUB, AGENT = CONTROLLER, ObjectKey(AGENTS_NAMESPACE, f"{INSTALLATION}-sa")
AUTOMATIC = {USERS.flag: BOOTSTRAP_USER}
"""Hub settings with which clusters join without a person."""

TransportWrapper: TypeAlias = Callable[[Transport], Transport]
"""Wraps a transport: to count requests, or to lose some."""


def pass_through(transport: Transport) -> Transport:
    return transport


@dataclass
class PlaneConnector:
    """Reaches the hub of a test: in process where there is no socket, else over HTTPS."""

    plane: Plane
    server: str = "https://hub.test:6443"
    may_join: bool = True
    through: TransportWrapper = pass_through

    def entry(self) -> ClusterEntry:
        return ClusterEntry(self.server, ca_data=self.plane.ca_pem)

    def has_bootstrap_credential(self) -> bool:
        return self.may_join

    def joining(self) -> Transport:
        return self.through(self.plane.fresh_client(BOOTSTRAP_USER, (MANAGED_CLUSTER_GROUP,)).transport)

    def own(self, data: SecretData) -> Transport:
        """Return a transport with the credential of a Secret; a kubeconfig that cannot be read is an error."""
        parse_kubeconfig(data[KUBECONFIG]).choose()
        return self.through(transport_with(self.plane, data["tls.crt"], data["tls.key"]))

    def with_credential(self, hub: ClusterEntry, credential: Credential) -> Client:
        local, certificate = self.plane.client().transport, credential.certificate
        if not isinstance(local, InProcessTransport):
            return connect_with(Endpoint(self.plane.server, hub.ca_data))(credential)
        if certificate is None:
            return Client(self.through(local.with_identity(authorization=credential.authorization)))
        return Client(self.through(transport_with(self.plane, certificate.chain, certificate.key.reveal())))


def transport_with(plane: Plane, certificate: bytes, key: bytes) -> Transport:
    local = plane.client().transport
    if isinstance(local, InProcessTransport):
        peer = Peer(address="in-process", certificate_chain=(parse_certificate(certificate).der,))
        return local.with_identity(peer=peer)
    user = UserEntry(certificate_data=certificate, key_data=Sensitive(key))
    cluster = ClusterEntry(plane.server, ca_data=plane.ca_pem)
    return make_client(Endpoint(plane.server, plane.ca_pem), credentials_of(user, cluster)).transport


@dataclass
class FleetHarness:
    """What a test does with a hub and its clusters."""

    plane: Plane
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)  # of the hubs that were started
    through: TransportWrapper = pass_through  # for every request of hubs and agents that are started from then on
    agent_clock: Clock | None = None  # of agents that are started from then on; None: that of the control plane

    @property
    def client(self) -> Client:
        return self.plane.client()

    def start_hub(
        self, allow: Settings | None = None, extensions: Sequence[HubExtension] = (), metrics: Metrics | None = None
    ) -> asyncio.Task[None]:
        options = HubOptions(
            settings=allow or {},
            auto_approval=bool(allow),
            elect=False,
            install=False,
            metrics=metrics or Metrics(),
        )
        return self.run_hub(options, extensions)

    def run_hub(self, options: HubOptions, extensions: Sequence[HubExtension] = ()) -> asyncio.Task[None]:
        self.metrics.append(options.metrics)
        work = run_hub(
            self.client_of(HUB), options, clock=self.plane.clock, random=_seeded("hub"), extensions=extensions
        )
        return self._start(work)

    def reconciles(self, controller: str) -> float:
        samples = [sample for family in self.metrics[-1].registry.families for sample in family.samples()]
        counted = [(labels, value) for name, labels, value in samples if name == "watchword_reconcile_total"]
        return sum(value for labels, value in counted if labels["controller"] == controller)

    def client_of(self, account: ObjectKey) -> Client:
        """Return the client of a process with its own rights: a ServiceAccount as it is shipped."""
        client = self.plane.fresh_client(*account_identity(account))
        return client.over(self.through(client.transport))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    async def stop(self, *tasks: asyncio.Task[None]) -> None:
        """End what runs, as a killed process would; raises the error of a task that failed before."""
        failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in failed:
            task.result()

    def name(self, prefix: str = "edge") -> str:
        """Return a cluster name that no other test uses."""
        name = self.plane.unique(prefix)
        self.clusters.append(name)
        return name

    def start_agent(
        self,
        name: str,
        *,
        connector: HubConnector | None = None,
        catalog: Catalog = CATALOG,
        controllers: Sequence[ControllerFactory] = (),
        **options: Any,
    ) -> asyncio.Task[None]:
        """Run the agent of a cluster with these options; its Secret is named after the cluster."""
        runtime = AgentRuntime(
            clock=self.agent_clock or self.plane.clock,
            random=_seeded(name),
            connector=connector or PlaneConnector(self.plane, through=self.through),
            controllers=controllers,
            catalog=catalog,
        )
        return self.run_agent(AgentOptions(name, hub_secret=f"hub-{name}", elect=False, **options), runtime)

    def run_agent(self, options: AgentOptions, runtime: AgentRuntime) -> asyncio.Task[None]:
        return self._start(run_agent(self.client_of(AGENT), options, runtime=runtime))

    async def joined(self, name: str) -> Cluster:
        """Wait until a cluster has joined."""
        return Cluster.read(await self.condition(name, ConditionType.JOINED, "True"))

    async def condition(self, name: str, type_: str, status: str, reason: str = "") -> Object:
        """Wait until a cluster's condition has this status."""

        def says_so(obj: Object | None) -> bool:
            rows = ((obj or {}).get("status") or {}).get("conditions") or []
            return any(
                row["type"] == type_ and row["status"] == status and reason in ("", row["reason"]) for row in rows
            )

        return await eventually(self.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), says_so)

    async def accept(self, name: str, *, accepted: bool = True) -> None:
        """Accept or deny a cluster, as the administrator."""
        patch = {"spec": {"hubAcceptsClient": accepted}}
        await self.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)

    async def remove(self, name: str) -> None:
        """Delete a cluster and wait until it is gone."""
        await self.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        await eventually(self.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), is_gone)

    async def forget(self) -> None:
        """Remove every cluster with its requests, also without a running hub: the next test's hub would see them."""
        for name in self.clusters:
            with suppress(NotFound):
                await self.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), {"metadata": {"finalizers": None}})
                await self.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(name))
            await delete_collection(self.client, CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={name}")


def account_identity(account: ObjectKey) -> tuple[str, tuple[str, ...]]:
    """Return the user and the groups of a ServiceAccount."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated")
    return service_account_user(account.namespace, account.name), groups


async def grant_shipped_rights(client: Client) -> None:
    """Apply the roles and bindings of operator, hub and agent as an installation has them, for every driver."""
    drivers = [{"authType": driver.name} for driver in CATALOG.drivers]
    gates = [{"feature": ACCOUNTS_GATE, "mode": "Enable"}]
    configuration = {"registrationDrivers": drivers, "featureGates": gates}
    key = ObjectKey.cluster(INSTALLATION)
    manager = CLUSTER_MANAGERS.manifest(key, spec={"registrationConfiguration": configuration})
    klusterlet = KLUSTERLETS.manifest(key, spec={})
    rows = [*operator_bundle(), *hub_manifests(manager), *agent_manifests(klusterlet)]
    shipped = (NAMESPACES, SERVICE_ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)
    await apply_manifests(client, [row for row in rows if row[0] in shipped], manager="shipped")
    await allow_hub(
        client,
        "signers",  # as docs/howto/addon-rbac.md says for add-ons with signers of their own
        rule("certificates.k8s.io", "signers", ["approve", "sign"], ["example.com/*"]),
        rule("certificates.k8s.io", "certificatesigningrequests/status", ["update", "patch"]),
        rule("", "secrets", ["get"]),
    )


async def allow_hub(client: Client, name: str, *rules: Object) -> None:
    """Give the hub further rights, as an administrator does."""
    key = ObjectKey.cluster(f"fleet:{name}")
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": key.name}
    subject = {"kind": "ServiceAccount", "namespace": HUB.namespace, "name": HUB.name}
    await client.apply(CLUSTER_ROLES, CLUSTER_ROLES.manifest(key, rules=list(rules)))
    binding = CLUSTER_ROLE_BINDINGS.manifest(key, roleRef=reference, subjects=[subject])
    await client.apply(CLUSTER_ROLE_BINDINGS, binding)


async def install_fleet(client: Client) -> None:
    await installation.install(client)
    await establish_crds(client, MANAGED_CRDS, manager=installation.FIELD_MANAGER)
    await grant_shipped_rights(client)


@asynccontextmanager
async def run_fleet(plane: Plane) -> AsyncIterator[FleetHarness]:
    """Prepare a hub on a control plane; everything that runs ends with the context."""
    client = plane.client()
    # Agents identify their cluster by the UID of kube-system, which a server may create after it is ready.
    await eventually(client, NAMESPACES, ObjectKey.cluster("kube-system"))
    await install_once(plane, "fleet", partial(install_fleet, client))
    await plane.controllers(
        "certificatesigningrequest-signing-controller",
        "namespace-controller",
        "garbage-collector-controller",
        "serviceaccount-controller",
    )
    await client.apply(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(AGENTS_NAMESPACE)))
    running = FleetHarness(plane)
    try:
        yield running
    finally:
        await running.stop(*running.tasks)
        await running.forget()
    for metrics in running.metrics:  # numbers tell no secret, labels could
        LeakSearch().require_none("the metrics of the hub", metrics.registry.exposition())


def _seeded(text: str) -> Random:
    return Random(text)


def lifetime_settings(*, certificate: timedelta | None = None, token: timedelta | None = None) -> Settings:
    rows = ((CERTIFICATE_LIFETIME, certificate), (TOKEN_LIFETIME, token))
    return {option.flag: str(int(life.total_seconds())) for option, life in rows if life is not None}
