"""A hub with the manager of managed service accounts, and clusters whose agents have their own narrow rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from tests.helpers.fleet import FleetHarness

from watchword.accounts.agent.process import AccountsAgentOptions, run_accounts_agent
from watchword.accounts.hub.controllers import AccountsManagerOptions, run_accounts_manager
from watchword.accounts.hub.definition import agent_manifests, install
from watchword.addons.definition import AddonInstance
from watchword.api.accounts import ADDON_NAME, AccountSecret
from watchword.api.addon import Addon, certificate_subject
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Annotation, ConditionType, addon_group
from watchword.api.resources import (
    DEPLOYMENTS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.tokens import request_token
from watchword.kube.transport import InProcessTransport
from watchword.operator.bundles import MANAGER, manager_bundle
from watchword.runtime.metrics import Metrics
from watchword.runtime.status import StatusWriter
from watchword.testing.builders import a_cluster, an_addon
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import VirtualLoop

PRESENT = ConditionType.ALL_ACCOUNTS_PRESENT
REPORTED = ConditionType.TOKEN_REPORTED
RESOURCES = {kind.kind: kind for kind in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, DEPLOYMENTS)}

MANAGER_USER = f"system:serviceaccount:{MANAGER.namespace}:{MANAGER.name}"
MANAGER_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{MANAGER.namespace}", "system:authenticated")


@dataclass
class Member:
    """One cluster: its name, and the namespace of the agent on it."""

    name: str
    namespace: str
    ca: bytes
    agent: asyncio.Task[None] | None = None


@dataclass
class AccountsFleet:
    """What tests of managed service accounts do; hub and clusters share a control plane."""

    harness: FleetHarness
    members: dict[str, Member] = field(default_factory=dict)
    manager: asyncio.Task[None] | None = None
    metrics: Metrics = field(default_factory=Metrics)  # of the hub side

    @property
    def plane(self) -> Plane:
        """The control plane."""
        return self.harness.plane

    @property
    def client(self) -> Client:
        """The administrator of hub and clusters."""
        return self.plane.client()

    async def start(self) -> None:
        """Install the kinds, give the hub side its published rights, and run it."""
        await install(self.client)
        for resource, obj in manager_bundle():
            if resource is not DEPLOYMENTS:
                await self.client.apply(resource, obj, force=True)
        self.start_manager()

    def start_manager(self) -> None:
        """Run the hub side."""
        self.metrics = Metrics()
        options = AccountsManagerOptions(
            install=False, metrics=self.metrics, clock=self.plane.clock, random=Random("manager")
        )
        self.manager = self._run(run_accounts_manager(self.plane.fresh_client(MANAGER_USER, MANAGER_GROUPS), options))

    async def stop_manager(self) -> None:
        """End the hub side as a killed process would."""
        assert self.manager is not None
        await self.harness.stop(self.manager)

    async def cluster(self, *, addon: bool = True, labels: dict[str, str] | None = None, **spec: Any) -> Member:
        """Add an accepted cluster; with the add-on, its agent runs with the rights that the hub gave it."""
        name = await self.plane.namespace("edge")
        self.harness.clusters.append(name)
        manifest = a_cluster(name, accepted=True, labels=labels or {})
        manifest["spec"] |= spec
        cluster = await self.client.create(MANAGED_CLUSTERS, manifest)
        accepted = Condition.true(ConditionType.HUB_ACCEPTED, "HubClusterAdminAccepted", "accepted")
        await StatusWriter(self.client, self.plane.clock).set_condition(MANAGED_CLUSTERS, cluster, accepted)
        member = self.members[name] = Member(name, await self.plane.namespace("agents"), self.plane.ca_pem)
        if addon:
            await self.enable(member)
            await self.start_agent(member)
        return member

    async def enable(self, member: Member) -> None:
        """Enable the add-on and bring its agent's rights to the cluster, as the work agent does."""
        await self.register(member)
        await self.install_agent(member)

    async def register(self, member: Member, **metadata: Any) -> None:
        """Enable the add-on, declare who its agent is as the cluster's agent does, and wait for its rights."""
        key = ObjectKey(member.name, ADDON_NAME)
        notes = {Annotation.INSTALL_NAMESPACE: member.namespace}
        addon = an_addon(ADDON_NAME, cluster=member.name, annotations=notes, **metadata)
        await self.client.create(MANAGED_CLUSTER_ADDONS, addon)
        subject = certificate_subject(member.name, ADDON_NAME).document()
        row = {"type": "kubeClient", "kubeClient": {"driver": "csr", "subject": subject}}
        patch = {"status": {"registrations": [row]}}
        await self.client.patch(MANAGED_CLUSTER_ADDONS, key, patch, subresource="status")
        applied = says(ConditionType.REGISTRATION_APPLIED, "True")
        await eventually(self.client, MANAGED_CLUSTER_ADDONS, key, applied, within=90)

    async def install_agent(self, member: Member) -> None:
        """Bring to a cluster what the add-on's work brings: the agent's account and its rights there."""
        addon = {**an_addon(ADDON_NAME, cluster=member.name), "status": {"namespace": member.namespace}}
        instance = AddonInstance(Addon.read(addon), Cluster.read(a_cluster(member.name)))
        for obj in agent_manifests(instance, "watchword"):
            await self.client.apply(RESOURCES[obj["kind"]], obj, force=True)

    async def start_agent(self, member: Member, *, local: Client | None = None) -> None:
        """Run the agent of a cluster, with its own identity on either side."""
        hub, local = self.hub_client(member), local or await self.local_client(member)
        hub, local = (client.over(self.harness.through(client.transport)) for client in (hub, local))
        endpoint = Endpoint(self.server, member.ca)
        options = AccountsAgentOptions(
            member.name,
            member.namespace,
            endpoint,
            connect=lambda token: self.as_token(token.reveal()),
            clock=self.harness.agent_clock or self.plane.clock,
            random=Random(member.name),
        )
        member.agent = self._run(run_accounts_agent(hub, local, options))

    async def stop_agent(self, member: Member) -> None:
        """End an agent as a killed process would."""
        assert member.agent is not None
        await self.harness.stop(member.agent)

    @property
    def server(self) -> str:
        """The address of the cluster's API server."""
        in_process = isinstance(self.client.transport, InProcessTransport)
        return "https://cluster.test:6443" if in_process else self.plane.server

    def hub_client(self, member: Member) -> Client:
        """Return a client of the hub as the add-on's agent on a cluster."""
        subject = certificate_subject(member.name, ADDON_NAME)
        return self.plane.fresh_client(subject.user, (addon_group(member.name, ADDON_NAME),))

    async def local_client(self, member: Member) -> Client:
        """Return a client of the cluster as the ServiceAccount that the agent runs as."""
        key = ObjectKey(member.namespace, ADDON_NAME)
        issued = await request_token(self.client, key, expiration_seconds=10 * 24 * 3600)
        return self.as_token(issued.token.reveal())

    def as_token(self, token: str) -> Client:
        """Return a client that shows this token."""
        bearer = Sensitive(f"Bearer {token}")
        transport = self.client.transport
        if isinstance(transport, InProcessTransport):
            return Client(transport.with_identity(authorization=bearer))
        endpoint = Endpoint(self.plane.server, self.plane.ca_pem)
        return self.plane.adopt(Client(HttpsTransport(endpoint, FixedCredential(Credential(authorization=bearer)))))

    async def declare(
        self, namespace: str, name: str, *, kind: Resource = MANAGED_SERVICE_ACCOUNTS, **spec: Any
    ) -> ObjectKey:
        """Create a ManagedServiceAccount."""
        key = ObjectKey(namespace, name)
        await self.client.create(kind, kind.manifest(key, spec={"rotation": {}, **spec}))
        return key

    async def until(
        self,
        key: ObjectKey,
        type_: str = REPORTED,
        status: str = "True",
        reason: str = "",
        *,
        kind: Resource = MANAGED_SERVICE_ACCOUNTS,
    ) -> Condition:
        """Wait until an account's condition says so."""
        found = await eventually(self.client, kind, key, says(type_, status, reason))
        said = find_condition(found, type_)
        assert said is not None
        return said

    async def secret(
        self, key: ObjectKey, is_so: Callable[[AccountSecret], bool] = lambda _: True, *, within: float = 30.0
    ) -> AccountSecret:
        """Wait until the hub's Secret of an account is so."""

        def test(obj: Object | None) -> bool:
            return obj is not None and is_so(AccountSecret.read(obj))

        return AccountSecret.read(await eventually(self.client, SECRETS, key, test, within=within))

    async def bound_namespace(self, set_name: str) -> str:
        """Return a namespace that is bound to a new cluster set."""
        selector = {
            "clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"set": set_name}}}
        }
        await self.client.create(
            MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SETS.manifest(ObjectKey("", set_name), spec=selector)
        )
        namespace = await self.plane.namespace("team")
        await self.bind(namespace, set_name)
        return namespace

    async def bind(self, namespace: str, set_name: str) -> None:
        """Bind a set to a namespace."""
        key = ObjectKey(namespace, set_name)
        manifest = MANAGED_CLUSTER_SET_BINDINGS.manifest(key, spec={"clusterSet": set_name})
        await self.client.create(MANAGED_CLUSTER_SET_BINDINGS, manifest)

    async def shows(self, metric: str, value: float, **labels: str) -> None:
        """Wait until a metric of the hub side has a value."""
        async with asyncio.timeout(30):
            while self.metrics.registry.get_sample_value(metric, labels) != value:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.1)

    async def pass_time(self, duration: timedelta) -> None:
        """Let virtual time pass."""
        assert isinstance(asyncio.get_running_loop(), VirtualLoop)
        await asyncio.sleep(duration.total_seconds())

    def local(self, member: Member, name: str) -> ObjectKey:
        """Return where an account's ServiceAccount is on a cluster."""
        return ObjectKey(member.namespace, name)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.harness.tasks.append(task)
        return task


def says(type_: str, status: str, reason: str = "") -> Callable[[Object | None], bool]:
    """Return the test whether an object's condition says so."""

    def test(obj: Object | None) -> bool:
        said = find_condition(obj or {}, type_)
        return said is not None and said.status == status and reason in ("", said.reason)

    return test
