"""What tests of add-ons do with a hub and its clusters."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from tests.helpers.fleet import AGENT, AUTOMATIC, FleetHarness, PlaneConnector, lifetime_settings, transport_with

from watchword.addons.definition import AddonDefinition
from watchword.addons.hub.definition_controllers import run_addon
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import ADDON_NAMESPACE, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.driver import Settings
from watchword.discovery.discover import ClientFactory
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import Unauthorized
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.transport import InProcessTransport
from watchword.processes.agent import AgentRuntime, addon_controllers, run_agent
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.registration.agent.options import AgentOptions
from watchword.registration.catalog import CATALOG, Catalog
from watchword.runtime.prometheus import CollectorRegistry
from watchword.testing.builders import an_addon
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

DAY = timedelta(days=1)
KUBE_CLIENT: Object = {"type": "kubeClient"}


@dataclass
class AddonFleet:
    """One hub, clusters with agents, add-ons on them; hub and clusters share a control plane."""

    members: FleetHarness
    plane: Plane
    namespace: str
    hub: asyncio.Task[None]
    mark: str
    clients: list[Client] = field(default_factory=list)
    agents: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    registries: dict[str, CollectorRegistry] = field(default_factory=dict)
    connectors: dict[str, PlaneConnector] = field(default_factory=dict)

    @classmethod
    async def on(cls, members: FleetHarness) -> AddonFleet:
        """Start the hub."""
        hub = members.start_hub(AUTOMATIC, [hub_addon_controllers])
        # Tests share a real control plane, and clusters outlive the test that made them.
        mark = "" if members.plane.name == "embedded" else f"-{secrets.token_hex(3)}"
        return cls(members, members.plane, await members.plane.namespace(f"addons{mark}"), hub, mark)

    async def close(self) -> None:
        """Close what tests connected to."""
        for client in self.clients:
            await client.close()

    @property
    def client(self) -> Client:
        """The administrator."""
        return self.plane.client()

    def start_hub(self) -> None:
        """Start another hub in place of one that was stopped."""
        self.hub = self.members.start_hub(AUTOMATIC, [hub_addon_controllers])

    def start_addon(self, definition: AddonDefinition) -> None:
        """Run the hub controller of an add-on, as its author's process does."""
        work = run_addon(self.plane.fresh_client(), definition, clock=self.plane.clock, random=Random(definition.name))
        self.members.tasks.append(asyncio.create_task(work))

    async def cluster(self, *, auth: str = "token", life: timedelta = DAY, **options: Any) -> str:
        """Let a cluster join and return its name."""
        name = self.members.name(f"edge{self.mark}")
        await self.start_agent(name, auth=auth, life=life, **options)
        await self.members.joined(name)
        return name

    async def start_agent(
        self,
        name: str,
        *,
        auth: str = "token",
        life: timedelta = DAY,
        catalog: Catalog = CATALOG,
        settings: Settings | None = None,
        network: ClientFactory | None = None,
        **more: Any,
    ) -> None:
        """Start the agent of a cluster, or one with other options in its place."""
        await self.stop_agent(name)
        options = AgentOptions(
            name,
            hub_secret=f"hub-{name}",
            addon_namespace=self.namespace,
            addon_auth=auth,
            settings={**lifetime_settings(token=life), **(settings or {})},
            elect=False,
            **more,
        )
        connector = self.connectors.setdefault(name, PlaneConnector(self.plane))
        connector.through = self.members.through
        runtime = AgentRuntime(
            clock=self.members.agent_clock or self.plane.clock,
            random=Random(name),
            connector=connector,
            client_factory=network,
            controllers=[addon_controllers],
            catalog=catalog,
        )
        self.registries[name] = runtime.metrics.registry
        self.agents[name] = asyncio.create_task(run_agent(self.members.client_of(AGENT), options, runtime=runtime))
        self.members.tasks.append(self.agents[name])

    async def stop_agent(self, name: str) -> None:
        """End the agent as a killed process would."""
        if name in self.agents:
            await self.members.stop(self.agents.pop(name))

    async def enable(self, addon: str, cluster: str, *registrations: Object, **metadata: Any) -> ObjectKey:
        """Enable an add-on and say what it needs, as its hub controller does; by default a kubeClient."""
        obj = await self.client.create(MANAGED_CLUSTER_ADDONS, an_addon(addon, cluster=cluster, **metadata))
        key = ObjectKey.of(obj)
        await self.register(key, *registrations)
        return key

    async def register(self, key: ObjectKey, *registrations: Object, **status: Any) -> None:
        """Write registrations, as the add-on's hub controller does."""
        rows = list(registrations) or [KUBE_CLIENT]
        patch = {"status": {"registrations": rows, **status}}
        await self.client.patch(MANAGED_CLUSTER_ADDONS, key, patch, subresource="status")

    async def says(
        self, key: ObjectKey, type_: str, status: str = "True", reason: str = "", *, within: float = 30.0
    ) -> Condition:
        """Wait until an add-on's condition has this status."""

        def is_so(obj: Object | None) -> bool:
            said = find_condition(obj or {}, type_)
            return said is not None and said.status == status and reason in ("", said.reason)

        found = find_condition(await self.until(key, is_so, within=within), type_)
        assert found is not None
        return found

    async def until(self, key: ObjectKey, is_so: Callable[[Object | None], bool], *, within: float = 30.0) -> Object:
        """Wait until a predicate holds for an add-on."""
        return await eventually(self.client, MANAGED_CLUSTER_ADDONS, key, is_so, within=within)

    async def refreshed(self, key: ObjectKey, *, within: float = 30.0) -> Condition:
        """Wait until the agent reports a token."""
        return await self.says(key, ConditionType.ADDON_TOKEN_REFRESHED, within=within)

    def secret_key(self, key: ObjectKey) -> ObjectKey:
        """Return where an add-on's credential for the hub lies."""
        return ObjectKey(self.namespace, f"{key.name}-hub-kubeconfig")

    async def secret(
        self,
        key: ObjectKey,
        is_so: Callable[[dict[str, bytes]], bool] = lambda data: "kubeconfig" in data,
        *,
        within: float = 30.0,
    ) -> dict[str, bytes]:
        """Wait until an add-on's Secret is so, and return its content."""

        def test(obj: Object | None) -> bool:
            return obj is not None and is_so(decoded(obj))

        return decoded(await eventually(self.client, SECRETS, self.secret_key(key), test, within=within))

    async def secret_anywhere(self, name: str) -> dict[str, bytes]:
        """Wait until a Secret of that name is there in the default namespace of add-ons, and return its content."""
        key = ObjectKey(ADDON_NAMESPACE, name)
        found = await eventually(self.client, SECRETS, key, lambda obj: "kubeconfig" in decoded(obj or {}))
        return decoded(found)

    async def gone(self, resource: Resource, *keys: ObjectKey, within: float = 60.0) -> None:
        """Wait until objects are gone."""
        for key in keys:
            await eventually(self.client, resource, key, is_gone, within=within)

    def as_token(self, token: bytes) -> Client:
        """Return a client that shows this token."""
        text = token.decode()
        local = self.plane.client().transport
        bearer = Sensitive(f"Bearer {text}")
        if isinstance(local, InProcessTransport):
            return Client(local.with_identity(authorization=bearer))
        endpoint = Endpoint(self.plane.server, self.plane.ca_pem)
        self.clients.append(Client(HttpsTransport(endpoint, FixedCredential(Credential(authorization=bearer)))))
        return self.clients[-1]

    async def is_refused(self, token: bytes) -> bool:
        """Retry until the hub rejects a token: its cache may accept one for some seconds."""
        client = self.as_token(token)
        async with asyncio.timeout(60):
            while True:
                try:
                    await who_am_i(client)
                except Unauthorized:
                    return True
                await asyncio.sleep(0.5)  # the end of a cache entry is not observable, so there is nothing to wait for

    def as_certificate(self, data: dict[str, bytes]) -> Client:
        """Return a client that shows the certificate of a Secret."""
        client = Client(transport_with(self.plane, data["tls.crt"], data["tls.key"]))
        self.clients.append(client)
        return client


def account_of(key: ObjectKey) -> ObjectKey:
    """Return the account that is made on the hub for an add-on by token."""
    return ObjectKey(key.namespace, f"{key.namespace}-{key.name}-agent")


def decoded(secret: Object) -> dict[str, bytes]:
    """Return a Secret's content."""
    return {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}


def registrations_of(obj: Object | None) -> list[Object]:
    """Return an add-on's registrations."""
    return ((obj or {}).get("status") or {}).get("registrations") or []


def drivers_of(obj: Object | None) -> Iterable[str]:
    """Return the declared drivers."""
    return [str((row.get("kubeClient") or {}).get("driver") or "") for row in registrations_of(obj)]
