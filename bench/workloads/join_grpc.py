"""Agents join over gRPC; then idle agents on one server, beside as many that watch kube-apiserver themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from bench.rig.meter import Mark
from bench.rig.result import SUBJECT, Result
from bench.rig.run import Cluster, Run, bounded
from bench.workloads.hub import allow_bootstrap, an_accepted_cluster, prepare_hub, prepare_managed
from bench.workloads.join import AGENT_USERS, measure_joins
from watchword.api.meta import ObjectKey
from watchword.api.names import CLUSTER_LEASE, GRPC_SIGNER, MANAGED_CLUSTERS_GROUP, agent_user, cluster_group
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.time import rfc3339_micro
from watchword.credentials.certificates.requests import GRPC_SERVER_USER
from watchword.credentials.credential_secret import encode_data
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, Unreachable
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import encode_kubeconfig
from watchword.kube.tls import ClientCertificate
from watchword.kube.tokens import request_token
from watchword.kube.watch import WatchUpdate, list_and_watch
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.registration.grpc.client.channel import EventChannel, GrpcCredential
from watchword.registration.grpc.client.object_store import ObjectStores
from watchword.registration.grpc.client.transport import GrpcTransport
from watchword.registration.grpc.config import GrpcEndpoint, bootstrap_config
from watchword.registration.grpc.driver import SIGNER_SECRET
from watchword.testing.builders import a_cluster_role_binding, a_namespace
from watchword.testing.credentials import connect_by_certificate
from watchword.testing.eventually import eventually
from watchword.testing.process import free_port

PARAMETERS = {"k": 20, "settle": 20, "idle": 0, "idle_agents": 0, "idle_seconds": 60}
ACCOUNT = ObjectKey("rig", "bootstrap")
SERVER = f"{SUBJECT}server"
API_SERVER = "hub:kube-apiserver"
CONNECTING = 32  # clients at a time: servers limit the connections of one address that have not authenticated
A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class GrpcHub:
    """A hub with a gRPC server."""

    hub: Cluster
    authority: Authority
    endpoint: GrpcEndpoint


async def run(one: Run) -> Result:
    """Let agents join over gRPC; with `idle_agents`, measure as many that do nothing but stay connected."""
    found, bootstrap = await prepare(one)
    result = await measure_joins(one, found.hub, bootstrap)
    if one.parameters["idle_agents"]:
        result.more["idle_agents"] = await measure_idle_agents(one, found)
    return result


async def prepare(one: Run) -> tuple[GrpcHub, str]:
    """Start a hub with the signer's authority, its server, and a managed cluster."""
    one.users = (*one.users, *AGENT_USERS, GRPC_SERVER_USER)
    hub, spoke = await one.cluster("hub"), await one.cluster("spoke")
    await prepare_hub(hub)
    await prepare_managed(spoke)
    await allow_bootstrap(hub)
    port, now = free_port(), datetime.now(UTC)
    authority = Authority.make(GRPC_SIGNER, now=now)
    folder = hub.audit.path.parent / "grpc"
    folder.mkdir()
    _write_tls(folder, authority, now)
    _write_server_config(folder, port)
    keys = {"tls.crt": authority.certificate.pem, "tls.key": authority.key.pem.reveal()}
    secret = SECRETS.manifest(SIGNER_SECRET, type="kubernetes.io/tls", data=encode_data(keys))
    await hub.client.create(SECRETS, secret)
    rights = a_cluster_role_binding("rig-grpc-server", role="cluster-admin", users=[GRPC_SERVER_USER])
    await hub.client.create(CLUSTER_ROLE_BINDINGS, rights)
    endpoint = GrpcEndpoint(url=f"localhost:{port}", ca_data=authority.certificate.pem)
    bootstrap = await _write_bootstrap(hub, endpoint, folder)
    credentials = hub.plane.credentials.kubeconfig(hub.plane.server, GRPC_SERVER_USER)
    one.launch_all(tls=folder, server_port=port, server_kubeconfig=credentials)
    await one.quiet()
    return GrpcHub(hub, authority, endpoint), bootstrap


def _write_tls(folder: Path, authority: Authority, now: datetime) -> None:
    key = PrivateKey.generate()
    names = AlternativeNames(("localhost",), ("127.0.0.1",))
    certificate = authority.issue_serving(key.public, names, now=now, lifetime=A_DAY)
    (folder / "tls.key").touch(0o600)
    (folder / "tls.key").write_bytes(key.pem.reveal())
    (folder / "tls.crt").write_bytes(certificate.pem)
    (folder / "ca.crt").write_bytes(authority.certificate.pem)
    (folder / "ca.key").touch(0o600)
    (folder / "ca.key").write_bytes(authority.key.pem.reveal())


def _write_server_config(folder: Path, port: int) -> None:
    """Write the file that Open Cluster Management's server reads instead of flags; it listens on every address."""
    files = {"tls_cert_file": "tls.crt", "tls_key_file": "tls.key", "client_ca_file": "ca.crt"}
    config = {"server_bind_port": str(port), **{name: str(folder / file) for name, file in files.items()}}
    (folder / "server.yaml").write_bytes(orjson.dumps(config))


async def _write_bootstrap(hub: Cluster, endpoint: GrpcEndpoint, folder: Path) -> str:
    user = f"system:serviceaccount:{ACCOUNT.namespace}:{ACCOUNT.name}"
    await hub.client.create(NAMESPACES, a_namespace(ACCOUNT.namespace))
    await hub.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(ACCOUNT))
    binding = a_cluster_role_binding("rig-grpc-bootstrap", role="rig-bootstrap", users=[user])
    await hub.client.create(CLUSTER_ROLE_BINDINGS, binding)
    granted = await request_token(hub.client, ACCOUNT, expiration_seconds=3600)
    entry = ClusterEntry(hub.plane.server, ca_data=hub.plane.credentials.ca_pem)
    context = ContextEntry("hub", "bootstrap")
    config = Kubeconfig({"hub": entry}, {"bootstrap": UserEntry(token=granted.token)}, {"b": context}, "b")
    (folder / "kubeconfig").write_bytes(encode_kubeconfig(config))
    for name in ("config.yaml", "kubeconfig.grpc"):  # beside the kubeconfig for us, behind its name for subject files
        (folder / name).write_bytes(bootstrap_config(endpoint, granted.token))
    return str(folder / "kubeconfig")


async def measure_idle_agents(one: Run, found: GrpcHub) -> dict[str, dict[str, float]]:
    """Return memory and processor time for each agent: of the gRPC server, and of kube-apiserver without one."""
    names = [f"idle-{number:04d}" for number in range(one.parameters["idle_agents"])]
    await bounded(found.hub.client.create(MANAGED_CLUSTERS, an_accepted_cluster(name)) for name in names)
    for name in names:
        await eventually(found.hub.client, LEASES, ObjectKey(name, CLUSTER_LEASE), within=600)
    await one.quiet()
    over_grpc = [_over_grpc(found, name) for name in names]
    grpc = await _measure(one, names, over_grpc)
    direct = [_direct(found.hub, name) for name in names]
    return {"grpc": grpc, "csr": await _measure(one, names, direct)}


async def _measure(one: Run, names: list[str], clients: list[Client]) -> dict[str, float]:
    before = await _settled_mark(one, 3.0)
    async with AsyncExitStack() as stack:
        for client in clients:
            stack.push_async_callback(client.close)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        ready = [asyncio.Event() for _ in names]
        gate = asyncio.Semaphore(CONNECTING)
        tasks = [
            group.create_task(_stay(client, name, event, gate))
            for client, name, event in zip(clients, names, ready, strict=True)
        ]
        for event in ready:
            await event.wait()
        after = await _settled_mark(one, float(one.parameters["idle_seconds"]))
        for task in tasks:
            task.cancel()
    return _figures(before, after, len(names))


async def _settled_mark(one: Run, seconds: float) -> Mark:
    async with one.meter() as meter:
        await asyncio.sleep(seconds)
        return meter.mark()


def _figures(before: Mark, after: Mark, agents: int) -> dict[str, float]:
    """Return what each agent adds: processor time for a minute, and memory."""
    figures = {}
    for label, name in (("server", SERVER), ("kube_apiserver", API_SERVER)):
        grown = after.peak_mib[name] - before.peak_mib[name]
        figures[f"{label}_kib"] = grown * 1024 / agents
        figures[f"{label}_cpu_ms_per_minute"] = after.cpu_seconds[name] * 60_000 / after.seconds / agents
    return figures


async def _stay(client: Client, name: str, ready: asyncio.Event, gate: asyncio.Semaphore) -> None:
    """Watch what an agent watches, and renew the lease once a minute."""
    async with asyncio.TaskGroup() as group:
        await gate.acquire()
        watches = (
            list_and_watch(client, MANAGED_CLUSTERS, fields=f"metadata.name={name}"),
            list_and_watch(client, MANAGED_CLUSTER_ADDONS, namespace=name),
            list_and_watch(client, MANIFEST_WORKS, namespace=name),
        )
        synced = [asyncio.Event() for _ in watches]
        for watch, event in zip(watches, synced, strict=True):
            group.create_task(_follow(watch, event))
        for event in synced:
            await event.wait()
        while not await _renew(client, name):
            pass
        gate.release()
        ready.set()
        while True:
            await asyncio.sleep(55)
            await _renew(client, name)


async def _follow(updates: AsyncIterator[WatchUpdate], synced: asyncio.Event) -> None:
    async for _ in updates:
        synced.set()


async def _renew(client: Client, name: str) -> bool:
    """Renew the lease; where the machine is too slow for it, an agent tries again with its next renewal."""
    patch = {"spec": {"renewTime": rfc3339_micro(datetime.now(UTC))}}
    try:
        await client.patch(LEASES, ObjectKey(name, CLUSTER_LEASE), patch)
    except (Conflict, Unreachable):
        return False
    return True


def _over_grpc(found: GrpcHub, name: str) -> Client:
    key = PrivateKey.generate()
    subject = CertificateSubject(agent_user(name, "rig"), (cluster_group(name), MANAGED_CLUSTERS_GROUP))
    leaf = found.authority.issue_client(key.public, subject, now=datetime.now(UTC), lifetime=A_DAY)
    credential = GrpcCredential(certificate=ClientCertificate(leaf.pem, key.pem))
    return Client(GrpcTransport(EventChannel(found.endpoint, credential, cluster=name), ObjectStores()))


def _direct(hub: Cluster, name: str) -> Client:
    groups = (cluster_group(name), MANAGED_CLUSTERS_GROUP)
    return connect_by_certificate(hub.plane.server, hub.plane.credentials, agent_user(name, "rig"), groups)
