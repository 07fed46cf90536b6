"""Clusters that register over gRPC: the server of the hub, its authority, and the connections with it."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from tests.simulation.administrator import quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.grpc_hub import SimulatedGrpc
from tests.simulation.held_credentials import cluster_credential, usable_certificate
from tests.simulation.incidents import Incident, incident
from tests.simulation.network import ProcessRun
from tests.simulation.pillar import Pillar
from tests.simulation.planes import GRPC_SERVER
from tests.simulation.process import SimulatedProcess
from tests.simulation.settings import DAY, HOUR, MINUTE

from watchword.api.meta import ObjectKey
from watchword.api.rbac import rules_of
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import ENDPOINT_CONFIG
from watchword.kube.errors import ConfigError, KubeError, ServerError
from watchword.pki.authority import Authority
from watchword.registration.grpc.config import parse_config
from watchword.registration.grpc.driver import BUNDLE_KEY, CA_BUNDLE, SERVER, SERVING_SECRET, SIGNER_SECRET
from watchword.registration.grpc.hub import NEXT_CERTIFICATE, NEXT_KEY
from watchword.testing.builders import a_cluster_role_binding

MOST_CONNECTIONS = 4
"""Of one cluster: one that is used, one that ends, and a look at a configuration that changed."""


@dataclass
class Grpc(Pillar):
    """Every other cluster registers over gRPC, all of them where there is one."""

    name = "grpc"
    renewal_writes = (
        r"/certificatesigningrequests/[^/]+/status 200$",  # the hub signs
        r"/secrets/(grpc-server-serving-cert|signer-secret) 200$",
        r"/configmaps/ca-bundle-configmap 200$",
    )
    servers: dict[str, SimulatedProcess] = field(default_factory=dict)
    _stops: dict[str, asyncio.Event] = field(default_factory=dict)

    @property
    def grpc(self) -> SimulatedGrpc:
        """The hub's servers."""
        if self.fleet.grpc is None:
            raise LookupError("this life has no gRPC server")
        return self.fleet.grpc

    async def start(self) -> None:
        """Give the server its rights, and start as many as there are hubs."""
        client, name = self.fleet.hub.administrator(), GRPC_SERVER.user.name
        role = CLUSTER_ROLES.manifest(ObjectKey.cluster(SERVER.role), rules=rules_of(SERVER.rules))
        await client.create(CLUSTER_ROLES, role)
        binding = a_cluster_role_binding(SERVER.role, role=SERVER.role, users=[name])
        await client.create(CLUSTER_ROLE_BINDINGS, binding)
        for number in range(self.fleet.team.replicas):
            self._add_server(f"grpc-{number}")

    def _add_server(self, name: str) -> None:
        link = self.fleet.hub_link(name)
        self.fleet.history.relays.add(name)

        async def run(run: ProcessRun) -> None:
            stop = self._stops[name] = asyncio.Event()
            await self.grpc.serve(run, link, stop)

        self.servers[name] = self.fleet.add_process(name, run, pillar=self.name)

    async def round(self) -> None:
        """Give the clusters every authority that the hub publishes, as its administrator is told to."""
        self.grpc.given_authorities = self.grpc.published_authorities or self.grpc.given_authorities

    async def step(self) -> None:
        """Use the certificates that are good, and look where agents think that the server is."""
        for member in self.settled_members:
            own, name = cluster_credential(member), member.name
            is_good = own is not None and own.expires_at > self.fleet.now and self.admin.is_accepted(name)
            refused = await self._find_refusal(member) if is_good else ""
            self.expect("its certificate is good, and the gRPC server refuses it", broken=bool(refused), cluster=name)
            elsewhere = is_good and self._recorded_url(member) != self.grpc.endpoint.url
            self.expect("its config.yaml does not name where the gRPC server is", broken=elsewhere, cluster=name)

    async def _find_refusal(self, member: SimulatedCluster) -> str:
        client = member.as_itself()
        if client is None or not any(server.running for server in self.servers.values()):
            return ""
        try:
            await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
        except ServerError:
            return ""  # the hub's API server is down
        except KubeError as refusal:
            return str(refusal)
        finally:
            await client.close()
        return ""

    def _recorded_url(self, member: SimulatedCluster) -> str:
        try:
            return parse_config(member.held().get(ENDPOINT_CONFIG, b"")).endpoint.url
        except ConfigError:
            return ""

    def issued(self) -> Iterator[tuple[str, str, datetime]]:
        """Yield the server's certificate, too, which the hub renews."""
        yield from super().issued()
        serving = usable_certificate(decode_data(self.grpc.stored.get(SECRETS, SERVING_SECRET)))
        if serving is not None:
            yield "hub", "gRPC server", serving.not_before

    def objections(self) -> Iterator[tuple[str, str]]:
        """No cluster has more connections than it needs."""
        found = Counter(each.client.link.name for each in self.grpc.network.connections if each.client.link is not None)
        for member in self.members:
            if found[member.to_hub.name] > MOST_CONNECTIONS:
                yield f"{member.name} has {found[member.to_hub.name]} connections with the gRPC server", member.name

    @incident(3, MINUTE, fleet_wide=True, at_hub=True)
    async def grpc_server_replaced(self, incident: Incident) -> AsyncIterator[None]:
        """A server is told to stop, and another one starts in its place."""
        self._stops[incident.choose(list(self._stops))].set()
        yield

    @incident(1, MINUTE, 6 * HOUR, fleet_wide=True, excuses=True, at_hub=True)
    async def grpc_server_outage(self, _: Incident) -> AsyncIterator[None]:
        """No gRPC server runs."""
        for server in self.servers.values():
            server.kill()
        yield
        for server in self.servers.values():
            server.start()

    @incident(2, MINUTE, fleet_wide=True)
    async def grpc_connections_cut(self, _: Incident) -> AsyncIterator[None]:
        """Every connection breaks, as when a load balancer is replaced."""
        for connection in tuple(self.grpc.network.connections):
            connection.end()
        yield

    @incident(2, MINUTE, 12 * HOUR, excuses=True)
    async def grpc_silence(self, incident: Incident) -> AsyncIterator[None]:
        """Nothing passes between the cluster and the server, and neither is told."""
        link = self.fleet.members[incident.target].to_hub
        self.grpc.network.fall_silent(link)
        yield
        self.grpc.network.silent[link.name] -= 1

    @incident(2, MINUTE, 12 * HOUR, excuses=True)
    async def grpc_late(self, incident: Incident) -> AsyncIterator[None]:
        """Data of the cluster and the server arrive half a minute late, or the connection breaks on the way."""
        link = self.fleet.members[incident.target].to_hub
        self.grpc.network.slow[link.name] += 1
        yield
        self.grpc.network.slow[link.name] -= 1

    @incident(2, HOUR, fleet_wide=True, at_hub=True)
    async def grpc_authority_rotated(self, _: Incident) -> AsyncIterator[None]:
        """The authority gets a successor, which signs an hour later; clusters are given both in time."""
        following = Authority.make("the next one", now=self.fleet.now)
        data = {NEXT_CERTIFICATE: following.certificate.pem, NEXT_KEY: following.key.pem.reveal()}
        patch = {"data": {name: base64.b64encode(value).decode() for name, value in data.items()}}
        await quietly(self.admin.client.patch(SECRETS, SIGNER_SECRET, patch))
        yield

    @incident(1, DAY, fleet_wide=True, excuses=True, at_hub=True)
    async def grpc_authority_lost(self, _: Incident) -> AsyncIterator[None]:
        """The Secret of the authority is deleted: the hub makes another one."""
        await quietly(self.admin.client.delete(SECRETS, SIGNER_SECRET))
        yield

    @incident(2, HOUR, fleet_wide=True, at_hub=True)
    async def grpc_certificate_changed(self, incident: Incident) -> AsyncIterator[None]:
        """The certificate of the server is deleted or damaged."""
        if incident.amount < 0.5:
            await quietly(self.admin.client.delete(SECRETS, SERVING_SECRET))
        else:
            part = incident.choose(("tls.crt", "tls.key"))
            await quietly(self.admin.client.patch(SECRETS, SERVING_SECRET, {"data": {part: "c2NyaWJibGU="}}))
        yield

    @incident(1, HOUR, fleet_wide=True, at_hub=True)
    async def grpc_bundle_damaged(self, incident: Incident) -> AsyncIterator[None]:
        """The authorities that the hub publishes are deleted or overwritten; the hub knows them from its own Secret."""
        if incident.amount < 0.5:
            await quietly(self.admin.client.delete(CONFIG_MAPS, CA_BUNDLE))
        else:
            await quietly(self.admin.client.patch(CONFIG_MAPS, CA_BUNDLE, {"data": {BUNDLE_KEY: "scribble"}}))
        yield

    @incident(1, HOUR, fleet_wide=True)
    async def grpc_server_moved(self, _: Incident) -> AsyncIterator[None]:
        """The server has another name, which is in the bootstrap Secrets; it does not answer to the one before."""
        self.grpc.moves += 1
        for connection in tuple(self.grpc.network.connections):
            connection.end()
        yield
