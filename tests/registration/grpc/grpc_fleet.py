"""A hub that registers clusters over gRPC, its gRPC server, and agents of our own that reach it only there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.helpers.fleet import AGENTS_NAMESPACE, BOOTSTRAP_USER, FleetHarness, TransportWrapper, pass_through
from tests.registration.grpc.grpc_hub import QUICK, SERVER_USER, fail, grant_server_rights, serves

from watchword.api.meta import ObjectKey
from watchword.api.names import BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT
from watchword.api.resources import CONFIG_MAPS, MANIFEST_WORKS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.credential_secret import decode_data
from watchword.kube.client import Client
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.kube.tokens import request_token
from watchword.kube.transport import Transport
from watchword.processes.agent import CONTROLLER_FACTORIES, ControllerFactory
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.registration.driver import ConnectorContext
from watchword.registration.grpc.client.channel import GrpcCredential
from watchword.registration.grpc.config import GrpcEndpoint, bootstrap_config
from watchword.registration.grpc.connector import GrpcConnector
from watchword.registration.grpc.driver import BUNDLE_KEY, CA_BUNDLE, HOSTS, SERVING_SECRET, USERS
from watchword.registration.grpc.server.listener import TlsFiles
from watchword.registration.grpc.server.process import GrpcServerOptions, run_grpc_server
from watchword.testing.eventually import eventually

ACCOUNT = ObjectKey(BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT)
SETTINGS = {HOSTS.flag: "localhost,127.0.0.1", USERS.flag: BOOTSTRAP_USER}


class WrappedConnector(GrpcConnector):
    """The connector of the driver, with every transport wrapped."""

    through: TransportWrapper = pass_through

    def _connect(self, endpoint: GrpcEndpoint, credential: GrpcCredential) -> Transport:
        return self.through(super()._connect(endpoint, credential))


@dataclass
class RunningServer:
    """One replica of the gRPC server."""

    task: asyncio.Task[None]
    stop: asyncio.Event
    endpoint: GrpcEndpoint

    async def end(self) -> None:
        self.stop.set()
        await self.task

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@dataclass
class GrpcFleet:
    """What a test does with them."""

    members: FleetHarness
    folder: Path
    servers: list[RunningServer] = field(default_factory=list)
    token: Sensitive[str] | None = None

    @property
    def client(self) -> Client:
        return self.members.client

    def start_hub(self) -> asyncio.Task[None]:
        """Run a hub on which clusters join without a person."""
        options = HubOptions(drivers=("csr", "grpc"), settings=SETTINGS, auto_approval=True, elect=False, install=False)
        work = run_hub(
            self.members.plane.fresh_client(),
            options,
            clock=self.members.plane.clock,
            random=Random(1),
            extensions=[hub_addon_controllers],
        )
        task = asyncio.create_task(work)
        self.members.tasks.append(task)
        return task

    async def start_server(self, port: int = 0) -> RunningServer:
        """Run a replica with the certificate that the hub has made for it."""
        serving = decode_data(await eventually(self.client, SECRETS, SERVING_SECRET, serves("localhost")))
        bundle = (await eventually(self.client, CONFIG_MAPS, CA_BUNDLE))["data"][BUNDLE_KEY].encode()
        files = {"tls.crt": serving["tls.crt"], "tls.key": serving["tls.key"], "client-ca.crt": bundle}
        paths = [self.folder / f"{len(self.servers)}-{name}" for name in files]
        for path, content in zip(paths, files.values(), strict=True):
            path.touch(0o600)
            path.write_bytes(content)
        await grant_server_rights(self.client)
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        stop, options = (
            asyncio.Event(),
            GrpcServerOptions(serve=("127.0.0.1", port), tls=TlsFiles(*paths), limits=QUICK),
        )
        client, clock = (
            self.members.plane.fresh_client(SERVER_USER, ("system:serviceaccounts",)),
            self.members.plane.clock,
        )
        task = asyncio.create_task(run_grpc_server(client, options, clock=clock, stop=stop, started=started.set_result))
        task.add_done_callback(lambda done: fail(started, done))
        server = RunningServer(task, stop, GrpcEndpoint(url=f"localhost:{await started}", ca_data=bundle))
        self.servers.append(server)
        return server

    async def bootstrap(self, name: str, endpoint: GrpcEndpoint) -> Path:
        """Write the files of a cluster's bootstrap Secret; the API server that they name does not exist."""
        granted = await request_token(self.client, ACCOUNT, expiration_seconds=3600)
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        entry = ClusterEntry("https://api.hub.test:6443", ca_data=self.members.plane.ca_pem)
        user, context = UserEntry(token=granted.token), ContextEntry("hub", "bootstrap")
        config = Kubeconfig({"hub": entry}, {"bootstrap": user}, {"bootstrap": context}, "bootstrap")
        (folder / "kubeconfig").write_bytes(dump_kubeconfig(config))
        (folder / "config.yaml").write_bytes(bootstrap_config(endpoint, granted.token))
        return folder

    def start_agent(
        self, name: str, folder: Path, controllers: Sequence[ControllerFactory] = CONTROLLER_FACTORIES, **options: Any
    ) -> asyncio.Task[None]:
        """Run the agent of a cluster with the driver of the catalog."""
        connector = WrappedConnector.make(ConnectorContext(cluster=name, bootstrap=folder / "kubeconfig"))
        connector.through = self.members.through
        return self.members.start_agent(
            name, connector=connector, controllers=controllers, registration_auth="grpc", **options
        )

    async def joined(self, **options: Any) -> str:
        """Let a cluster join over the first server, and return its name."""
        server = self.servers[0] if self.servers else await self.start_server()
        name = self.members.name()
        self.start_agent(name, await self.bootstrap(name, server.endpoint), **options)
        await self.members.joined(name)
        return name

    async def has_work(self, cluster: str, name: str) -> ObjectKey:
        """Create a work, and return the ConfigMap that it brings."""
        key = ObjectKey("default", self.members.plane.unique(name))
        manifest = CONFIG_MAPS.manifest(key, data={"from": name})
        work = MANIFEST_WORKS.manifest(ObjectKey(cluster, name), spec={"workload": {"manifests": [manifest]}})
        await self.client.create(MANIFEST_WORKS, work)
        return key

    async def applied(self, cluster: str, name: str) -> None:
        """Create a work and wait until its object is there."""
        await eventually(self.client, CONFIG_MAPS, await self.has_work(cluster, name))

    async def secret(self, name: str) -> dict[str, bytes]:
        """Return the content of a cluster's own Secret."""
        return decode_data(await self.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))

    async def close(self) -> None:
        for server in self.servers:
            await server.kill()


@asynccontextmanager
async def run_grpc_fleet(members: FleetHarness, folder: Path) -> AsyncIterator[GrpcFleet]:
    """A hub; tests start servers and agents."""
    fleet = GrpcFleet(members, folder)
    fleet.start_hub()
    try:
        yield fleet
    finally:
        await members.stop(*members.tasks)
        await fleet.close()
