"""An agent's requests over gRPC to the hub's own server, on both control planes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

import pytest
import pytest_asyncio
from tests.helpers.server_decision import until_refused
from tests.registration.grpc.grpc_hub import GrpcHub

from watchword.api.conditions import Condition
from watchword.api.meta import ObjectKey, finalizers_of, is_deleting
from watchword.api.names import (
    CLUSTER_LEASE,
    MANAGED_CLUSTERS_GROUP,
    ConditionType,
    Finalizer,
    agent_user,
    cluster_group,
)
from watchword.api.resources import LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS
from watchword.kube.client import Client
from watchword.kube.errors import ClientCertificateRefused, Forbidden, NotFound
from watchword.kube.request_sender import NO_RETRY
from watchword.kube.tls import ClientCertificate
from watchword.kube.watch import ObjectChange, Snapshot, WatchOptions, list_and_watch
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.registration.grpc.client.channel import EventChannel, GrpcCredential
from watchword.registration.grpc.client.object_store import ObjectStores
from watchword.registration.grpc.client.transport import GrpcTransport
from watchword.registration.grpc.config import GrpcEndpoint
from watchword.runtime.status import StatusWriter
from watchword.testing.eventually import eventually, is_gone

pytestmark = pytest.mark.real_time


@dataclass
class Agent:
    """The client of one accepted cluster."""

    hub: GrpcHub
    name: str
    client: Client

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.cluster(self.name)

    async def has_work(self, name: str) -> ObjectKey:
        key = ObjectKey(self.name, name)
        await self.hub.client.create(MANIFEST_WORKS, MANIFEST_WORKS.manifest(key, spec={"workload": {"manifests": []}}))
        return key


def connect(hub: GrpcHub, cluster: str, signer: Authority | None = None) -> Client:
    key = PrivateKey.generate()
    subject = CertificateSubject(agent_user(cluster, "agent-1"), (cluster_group(cluster), MANAGED_CLUSTERS_GROUP))
    now = hub.fleet.plane.clock.now()
    certificate = (signer or hub.authority).issue_client(key.public, subject, now=now, lifetime=timedelta(hours=1))
    endpoint = GrpcEndpoint(url=f"localhost:{hub.port}", ca_data=hub.authority.certificate.pem)
    credential = GrpcCredential(certificate=ClientCertificate(certificate.pem, key.pem))
    return Client(GrpcTransport(EventChannel(endpoint, credential, cluster=cluster), ObjectStores()), retry=NO_RETRY)


@pytest_asyncio.fixture
async def agent(hub: GrpcHub) -> AsyncIterator[Agent]:
    await hub.start()
    name = await hub.accepted()
    client = connect(hub, name)
    yield Agent(hub, name, client)
    await client.close()


async def test_certificate_that_the_server_refuses_in_the_handshake_is_a_refused_credential(agent: Agent) -> None:
    refused = connect(agent.hub, agent.name, signer=agent.hub.new_authority())

    with pytest.raises(ClientCertificateRefused, match="rejected the client certificate"):
        await refused.get(MANAGED_CLUSTERS, agent.key)
    await refused.close()


async def test_agent_reads_its_own_cluster_and_no_other(agent: Agent) -> None:
    found = await agent.client.get(MANAGED_CLUSTERS, agent.key)
    listed = await agent.client.list(MANAGED_CLUSTERS)

    assert found["metadata"]["uid"] == (await agent.hub.client.get(MANAGED_CLUSTERS, agent.key))["metadata"]["uid"]
    assert [each["metadata"]["name"] for each in listed.items] == [agent.name]


async def test_watch_reports_every_change(agent: Agent) -> None:
    async with aclosing(list_and_watch(agent.client, MANAGED_CLUSTERS)) as updates:
        first = await anext(updates)
        await agent.hub.client.patch(MANAGED_CLUSTERS, agent.key, {"metadata": {"labels": {"a": "b"}}})
        second = await anext(updates)

    assert isinstance(first, Snapshot)
    assert isinstance(second, ObjectChange)
    assert b'"a":"b"' in second.raw


async def test_lease_is_renewed_time_and_again(agent: Agent) -> None:
    for holder in ("agent-1", "agent-2", "agent-3"):
        patch = {"spec": {"holderIdentity": holder}}
        await agent.client.patch(LEASES, ObjectKey(agent.name, CLUSTER_LEASE), patch)

        assert (await agent.hub.lease(agent.name))["spec"]["holderIdentity"] == holder


async def test_conditions_are_written_although_the_hub_writes_others(agent: Agent) -> None:
    status = StatusWriter(agent.client, agent.hub.fleet.plane.clock)
    known = await agent.client.get(MANAGED_CLUSTERS, agent.key)
    hub = StatusWriter(agent.hub.client, agent.hub.fleet.plane.clock)
    await hub.set_condition(
        MANAGED_CLUSTERS, await agent.hub.client.get(MANAGED_CLUSTERS, agent.key), Condition.true("Other", "R", "m")
    )

    await status.set_condition(MANAGED_CLUSTERS, known, Condition.true(ConditionType.JOINED, "Joined", "m"))

    rows = (await agent.hub.client.get(MANAGED_CLUSTERS, agent.key))["status"]["conditions"]
    assert {"Other", ConditionType.JOINED} <= {row["type"] for row in rows}


async def test_work_gets_its_finalizer_and_status_and_is_removed_by_its_agent(agent: Agent) -> None:
    key = await agent.has_work("nginx")
    work = await agent.client.get(MANIFEST_WORKS, key)
    work = await agent.client.patch(MANIFEST_WORKS, key, {"metadata": {"finalizers": [Finalizer.MANIFEST_WORK]}})
    status = StatusWriter(agent.client, agent.hub.fleet.plane.clock)
    await status.set_condition(MANIFEST_WORKS, work, Condition.true("Applied", "AppliedManifestWorkComplete", "m"))

    stored = await agent.hub.client.get(MANIFEST_WORKS, key)
    assert finalizers_of(stored) == [Finalizer.MANIFEST_WORK]
    assert [row["type"] for row in stored["status"]["conditions"]] == ["Applied"]

    await agent.hub.client.delete(MANIFEST_WORKS, key)
    async with asyncio.timeout(60):  # the gRPC server answers from a cache, which follows the hub a moment later
        while not is_deleting(await agent.client.get(MANIFEST_WORKS, key)):  # noqa: ASYNC110 - a get gives no signal
            await asyncio.sleep(0.05)
    await agent.client.patch(MANIFEST_WORKS, key, {"metadata": {"finalizers": None}})
    await eventually(agent.hub.client, MANIFEST_WORKS, key, is_gone)
    await until_refused(lambda: agent.client.get(MANIFEST_WORKS, key), NotFound)


async def test_agent_that_restarts_finds_the_status_of_its_works(agent: Agent) -> None:
    key = await agent.has_work("nginx")
    work = await agent.client.get(MANIFEST_WORKS, key)
    status = StatusWriter(agent.client, agent.hub.fleet.plane.clock)
    await status.set_condition(MANIFEST_WORKS, work, Condition.true("Applied", "AppliedManifestWorkComplete", "m"))

    restarted = connect(agent.hub, agent.name)
    found = await restarted.get(MANIFEST_WORKS, key)
    await restarted.close()

    assert [row["type"] for row in found["status"]["conditions"]] == ["Applied"]


async def test_denied_cluster_loses_its_watch_and_is_refused(agent: Agent) -> None:
    refused = asyncio.Event()

    def note(error: Exception) -> None:
        if isinstance(error, Forbidden):
            refused.set()

    options = WatchOptions(on_error=note)
    async with aclosing(list_and_watch(agent.client, MANIFEST_WORKS, namespace=agent.name, options=options)) as updates:
        await anext(updates)
        reading = asyncio.ensure_future(anext(updates))
        await agent.hub.fleet.accept(agent.name, accepted=False)
        await refused.wait()
        reading.cancel()
        await asyncio.wait({reading})

    with pytest.raises(Forbidden, match="is not accepted"):
        await agent.client.get(MANAGED_CLUSTERS, agent.key)
