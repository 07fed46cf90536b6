"""Clusters register and work over gRPC with our agent, hub and server."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE
from tests.registration.grpc.grpc_fleet import GrpcFleet

from watchword.api.conditions import is_true
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import CLUSTER_LEASE, GRPC_SIGNER, Annotation, ConditionType, Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    LEASES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
)
from watchword.credentials.credential_secret import decode_data
from watchword.kube.transport import Transport
from watchword.registration.catalog import CATALOG
from watchword.registration.grpc.config import bootstrap_config, parse_config, read_token
from watchword.testing.eventually import eventually, is_gone

pytestmark = pytest.mark.real_time


async def requests_of(grpc_fleet: GrpcFleet, name: str) -> list[Object]:
    found = await grpc_fleet.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={name}")
    return found.items


async def test_cluster_joins_with_a_certificate_of_the_own_signer(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()

    cluster = await grpc_fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    data = await grpc_fleet.secret(name)
    assert CATALOG.driver_of(cluster).name == CATALOG.holder_of(data) == "grpc"
    assert [each["spec"]["signerName"] for each in await requests_of(grpc_fleet, name)] == [GRPC_SIGNER]
    assert parse_config(data["config.yaml"]).endpoint == grpc_fleet.servers[0].endpoint
    assert set(data) == {"agent-name", "cluster-name", "config.yaml", "kubeconfig", "tls.crt", "tls.key"}


async def test_member_renews_its_lease_and_reports_its_state(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()

    def is_renewed(lease: Object | None) -> bool:
        return bool(((lease or {}).get("spec") or {}).get("renewTime"))

    cluster = await grpc_fleet.members.condition(name, ConditionType.AVAILABLE, "True")
    await eventually(grpc_fleet.client, LEASES, ObjectKey(name, CLUSTER_LEASE), is_renewed)
    assert cluster["status"]["version"]["kubernetes"]
    assert is_true(cluster, ConditionType.CERTIFICATE_ROTATED)


async def test_works_are_applied_reported_and_removed(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()
    key, work = await grpc_fleet.has_work(name, "settings"), ObjectKey(name, "settings")

    await eventually(grpc_fleet.client, CONFIG_MAPS, key)
    await eventually(grpc_fleet.client, MANIFEST_WORKS, work, lambda obj: is_true(obj or {}, "Available"))
    await grpc_fleet.client.delete(MANIFEST_WORKS, work)

    await eventually(grpc_fleet.client, MANIFEST_WORKS, work, is_gone)
    await eventually(grpc_fleet.client, CONFIG_MAPS, key, is_gone)


async def test_agent_continues_after_the_server_was_killed(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()
    await grpc_fleet.applied(name, "before")
    _, port = grpc_fleet.servers[0].endpoint.address

    await grpc_fleet.servers[0].kill()
    key = await grpc_fleet.has_work(name, "meanwhile")
    await grpc_fleet.start_server(port)

    await eventually(grpc_fleet.client, CONFIG_MAPS, key)


@pytest.mark.slow
async def test_server_that_moved_is_followed_without_another_join(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()
    issued = (await grpc_fleet.secret(name))["tls.crt"]
    other = await grpc_fleet.start_server()
    path = grpc_fleet.folder / name / "config.yaml"
    path.write_bytes(bootstrap_config(other.endpoint, read_token(parse_config(path.read_bytes()))))

    def is_recorded(secret: Object | None) -> bool:
        data = decode_data(secret)
        return parse_config(data["config.yaml"]).endpoint == other.endpoint

    await eventually(grpc_fleet.client, SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"), is_recorded)
    await grpc_fleet.servers[0].kill()
    await grpc_fleet.applied(name, "moved")
    assert (await grpc_fleet.secret(name))["tls.crt"] == issued
    assert len(await requests_of(grpc_fleet, name)) == 1


async def test_renewed_certificate_is_used_without_an_interruption(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()
    first = (await grpc_fleet.secret(name))["tls.crt"]
    patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "now"}}}

    await grpc_fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)

    def is_renewed(secret: Object | None) -> bool:
        return decode_data(secret)["tls.crt"] != first

    await eventually(grpc_fleet.client, SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"), is_renewed)
    await grpc_fleet.applied(name, "renewed")


async def test_denied_cluster_receives_nothing_until_it_is_accepted_again(grpc_fleet: GrpcFleet) -> None:
    name = await grpc_fleet.joined()

    await grpc_fleet.members.accept(name, accepted=False)
    await grpc_fleet.members.condition(name, ConditionType.HUB_ACCEPTED, "False")
    key = await grpc_fleet.has_work(name, "denied")
    unseen = await grpc_fleet.client.find(CONFIG_MAPS, key)
    await grpc_fleet.members.accept(name)

    await eventually(grpc_fleet.client, CONFIG_MAPS, key)
    assert unseen is None


@dataclass
class Killer:
    """Stops an agent after some of its writes, before it learns the result of the last."""

    left: int = 0
    written: asyncio.Event = field(default_factory=asyncio.Event)

    def wrap(self, transport: Transport) -> Transport:
        return KillingTransport(transport, self)

    def arm(self, writes: int) -> None:
        self.left = writes
        self.written.clear()


@dataclass
class KillingTransport:
    """Lets a write happen and, where it is the last one, never returns from it."""

    transport: Transport
    killer: Killer

    async def send(self, request: Request) -> Response:
        response = await self.transport.send(request)
        if request.method != "GET" and response.status < 300:
            self.killer.left -= 1
            if self.killer.left <= 0:
                self.killer.written.set()
                await asyncio.Event().wait()
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.transport.stream(request)

    async def close(self) -> None:
        await self.transport.close()


async def test_agent_that_is_killed_after_any_write_loses_nothing(grpc_fleet: GrpcFleet) -> None:
    name, killer = grpc_fleet.members.name(), Killer()
    server = await grpc_fleet.start_server()
    folder = await grpc_fleet.bootstrap(name, server.endpoint)
    grpc_fleet.members.through = killer.wrap
    done = asyncio.create_task(joined_and_applied(grpc_fleet, name))

    for writes in itertools.count(1):
        killer.arm(writes)
        agent = grpc_fleet.start_agent(name, folder)
        written = asyncio.create_task(killer.written.wait())
        await asyncio.wait({written, done}, return_when=asyncio.FIRST_COMPLETED)
        written.cancel()
        await grpc_fleet.members.stop(agent)
        if done.done():
            break

    await done
    assert writes > 3
    assert len(await requests_of(grpc_fleet, name)) == 1


async def joined_and_applied(grpc_fleet: GrpcFleet, name: str) -> None:
    await grpc_fleet.members.joined(name)
    await grpc_fleet.applied(name, "settings")
