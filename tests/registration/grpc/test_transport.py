"""Requests over gRPC to a server that is not ours, with the events of Open Cluster Management's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import grpc
import orjson
import pytest
import pytest_asyncio
from tests.registration.grpc.published_protocol import PublishedProtocol
from tests.registration.grpc.scripted_server import ScriptedServer, run_scripted_server

from watchword.api.http import Request
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    LEASES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
)
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    ServerError,
    Stalled,
    Unreachable,
    Untrusted,
)
from watchword.kube.request_sender import NO_RETRY
from watchword.kube.tokens import request_token
from watchword.kube.watch import ObjectChange, Snapshot, WatchOptions, list_and_watch
from watchword.registration.grpc.client.channel import EventChannel, GrpcCredential
from watchword.registration.grpc.client.object_events import resync_request
from watchword.registration.grpc.client.object_store import ObjectStores
from watchword.registration.grpc.client.transport import GrpcTransport
from watchword.registration.grpc.cloud_events import DataType

pytestmark = pytest.mark.real_time

REQUEST = DataType.CERTIFICATE_REQUEST.value
CLUSTER, LEASE, WORK = DataType.MANAGED_CLUSTER.value, DataType.LEASE.value, DataType.MANIFEST_BUNDLE.value
KEY = ObjectKey.cluster("edge")
LEASE_KEY, WORK_KEY = ObjectKey("edge", "managed-cluster-lease"), ObjectKey("edge", "nginx")


@pytest_asyncio.fixture
async def server(protocol: PublishedProtocol) -> AsyncIterator[ScriptedServer]:
    async with run_scripted_server(protocol) as running:
        yield running


@pytest_asyncio.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    connected = connect(server)
    yield connected
    await connected.close()


def connect(server: ScriptedServer, **endpoint: object) -> Client:
    credential = GrpcCredential(token=Sensitive("abcdef.0123456789abcdef"))
    channel = EventChannel(replace(server.endpoint, **endpoint), credential, cluster="edge")  # type: ignore[arg-type]
    return Client(GrpcTransport(channel, ObjectStores()), retry=NO_RETRY)


def cluster(version: str, **fields: object) -> Object:
    return {"metadata": {"name": "edge", "uid": "u1", "resourceVersion": version}, **fields}


def cluster_event(server: ScriptedServer, action: str, version: str, **fields: object) -> object:
    return server.event(f"{CLUSTER}.spec.{action}", cluster(version, **fields), clustername="edge", resourceid="u1")


def lease_event(server: ScriptedServer, version: str, holder: str = "") -> object:
    metadata = {"name": LEASE_KEY.name, "namespace": "edge", "uid": "l1", "resourceVersion": version}
    lease = {"metadata": metadata, "spec": {"holderIdentity": holder}}
    return server.event(f"{LEASE}.spec.resync_response", lease, clustername="edge", resourceid="l1")


def work_event(server: ScriptedServer, generation: int) -> object:
    metadata = {"name": "nginx", "namespace": "edge", "uid": "w1", "resourceVersion": str(generation)}
    return server.event(
        f"{WORK}.spec.resync_response",
        {"manifests": [{"kind": "ConfigMap"}]},
        clustername="edge",
        resourceid="w1",
        resourceversion=generation,
        metadata=orjson.dumps(metadata).decode(),
    )


async def test_token_is_sent_with_every_call(server: ScriptedServer, client: Client) -> None:
    await client.create(MANAGED_CLUSTERS, {"metadata": {"name": "edge"}, "spec": {}})

    assert {sent["authorization"] for sent in server.metadata} == {"Bearer abcdef.0123456789abcdef"}
    assert server.published[-1].type == f"{CLUSTER}.spec.create_request"


@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        pytest.param(grpc.StatusCode.PERMISSION_DENIED, "no", Forbidden, id="refused"),
        pytest.param(
            grpc.StatusCode.FAILED_PRECONDITION,
            '{"ErrStatus":{"code":409,"reason":"AlreadyExists","message":"edge exists"}}',
            AlreadyExists,
            id="a Status",
        ),
        pytest.param(grpc.StatusCode.FAILED_PRECONDITION, "{}", ServerError, id="an error that lost its text"),
        pytest.param(grpc.StatusCode.UNAVAILABLE, "", Unreachable, id="not there"),
    ],
)
async def test_refusal_is_that_of_an_api_server(
    server: ScriptedServer, client: Client, code: grpc.StatusCode, message: str, error: type[Exception]
) -> None:
    server.refusals[f"{CLUSTER}.spec.create_request"] = (code, message)

    with pytest.raises(error):
        await client.create(MANAGED_CLUSTERS, {"metadata": {"name": "edge"}})


async def test_server_of_another_authority_is_not_trusted(server: ScriptedServer, protocol: PublishedProtocol) -> None:
    other = ScriptedServer(protocol)
    client = connect(server, ca_data=other.authority.certificate.pem)

    with pytest.raises(Untrusted, match="signed by an authority that is not trusted"):
        await client.get(MANAGED_CLUSTERS, KEY)
    assert server.metadata == []


async def test_object_that_the_hub_does_not_have_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.get(MANIFEST_WORKS, WORK_KEY)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(lambda client: client.delete(MANAGED_CLUSTERS, KEY), id="delete"),
        pytest.param(lambda client: client.get(SECRETS, ObjectKey("edge", "s")), id="another kind"),
        pytest.param(lambda client: client.read("/version"), id="no resource"),
        pytest.param(lambda client: client.patch(MANAGED_CLUSTERS, KEY, {"spec": {}}), id="patch of a spec"),
    ],
)
async def test_request_that_the_protocol_does_not_carry_is_refused(client: Client, request_: object) -> None:
    with pytest.raises(MethodNotAllowed, match="the gRPC server of a hub does not serve"):
        await request_(client)  # type: ignore[operator]


@pytest.mark.parametrize("marks_resync", [True, False])
async def test_read_asks_the_hub_again(server: ScriptedServer, client: Client, marks_resync: object) -> None:
    server.marks_resync = bool(marks_resync)
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "1")]
    await client.get(MANAGED_CLUSTERS, KEY)
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "2", spec={"leaseDurationSeconds": 5})]

    assert (await client.get(MANAGED_CLUSTERS, KEY))["spec"] == {"leaseDurationSeconds": 5}


async def test_watch_reports_the_present_state_and_then_every_change(server: ScriptedServer, client: Client) -> None:
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "9")]

    async with aclosing(list_and_watch(client, MANAGED_CLUSTERS, fields="metadata.name=edge")) as updates:
        first = await anext(updates)
        server.send(CLUSTER, cluster_event(server, "update_request", "7", spec={"a": 1}))
        second = await anext(updates)
        server.send(CLUSTER, server.deletion(f"{CLUSTER}.spec.delete_request", clustername="edge", resourceid="u1"))
        third = await anext(updates)

    assert isinstance(first, Snapshot)
    assert len([*first.items]) == 1
    assert isinstance(second, ObjectChange)
    assert isinstance(third, ObjectChange)
    assert (second.type, third.type) == ("MODIFIED", "DELETED")


async def test_watch_that_missed_changes_has_to_list_again(server: ScriptedServer, client: Client) -> None:
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "9")]
    query = (("watch", "true"), ("resourceVersion", "5"))

    async with client.transport.stream(Request("GET", MANAGED_CLUSTERS.path(), query=query)) as response:
        assert response.status == 410


@pytest.mark.parametrize(
    ("labels", "fields"),
    [
        pytest.param("a=b", "", id="other labels"),
        pytest.param("", "metadata.name=other", id="another name"),
    ],
)
async def test_selectors_that_the_hub_does_not_apply_are_refused(client: Client, labels: str, fields: str) -> None:
    with pytest.raises(BadRequest, match="reads all of its objects of a kind"):
        await client.list(MANAGED_CLUSTERS, labels=labels, fields=fields)


async def test_stream_that_ends_is_opened_again_with_a_resync_of_newer_versions(
    server: ScriptedServer, client: Client
) -> None:
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "1")]
    options = WatchOptions()

    async with aclosing(list_and_watch(client, MANAGED_CLUSTERS, options=options)) as updates:
        await anext(updates)
        server.objects[CLUSTER] = [cluster_event(server, "resync_response", "2", spec={"a": 1})]
        server.end(CLUSTER)
        listed = await anext(updates)

    assert isinstance(listed, Snapshot)
    assert [orjson.loads(raw)["spec"] for raw in listed.items] == [{"a": 1}]
    requests = [orjson.loads(event.binary_data) for event in server.published]
    assert requests[1] == {"resourceVersions": [{"resourceID": "u1", "resourceVersion": 1}]}


async def test_silence_after_a_heartbeat_is_a_lost_connection(server: ScriptedServer) -> None:
    client = connect(server, health_timeout=timedelta(milliseconds=50))
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "1")]
    problems: list[Exception] = []
    options = WatchOptions(on_error=problems.append)

    async with aclosing(list_and_watch(client, MANAGED_CLUSTERS, options=options)) as updates:
        await anext(updates)
        waiting = asyncio.ensure_future(anext(updates))
        assert [await server.subscribed.get() for _ in range(2)] == [CLUSTER, CLUSTER]
        waiting.cancel()
        await asyncio.wait({waiting})
    await client.close()

    assert isinstance(problems[0], Stalled)


async def test_lease_is_renewed_under_the_version_of_the_hub(server: ScriptedServer, client: Client) -> None:
    server.objects[LEASE] = [lease_event(server, "11")]

    await client.patch(LEASES, LEASE_KEY, {"spec": {"holderIdentity": "agent-1"}})

    event = server.published[-1]
    lease = orjson.loads(event.binary_data)
    assert event.type == f"{LEASE}.spec.update_request"
    assert (lease["metadata"]["resourceVersion"], lease["spec"]) == ("11", {"holderIdentity": "agent-1"})


async def test_second_renewal_uses_the_version_that_the_first_led_to(server: ScriptedServer, client: Client) -> None:
    server.objects[LEASE] = [lease_event(server, "11")]
    server.on_publish = lambda event: (
        server.send(LEASE, lease_event(server, "12", "a")) if event.type.endswith("update_request") else None
    )

    await client.patch(LEASES, LEASE_KEY, {"spec": {"holderIdentity": "a"}})
    await client.patch(LEASES, LEASE_KEY, {"spec": {"holderIdentity": "b"}})

    assert orjson.loads(server.published[-1].binary_data)["metadata"]["resourceVersion"] == "12"


async def test_status_of_an_outdated_version_is_a_conflict(server: ScriptedServer, client: Client) -> None:
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "1")]
    patch = {"metadata": {"resourceVersion": "1"}, "status": {}}

    with pytest.raises(Conflict):
        await client.patch(MANAGED_CLUSTERS, KEY, patch, subresource="status")


async def test_status_is_published_as_a_whole_object(server: ScriptedServer, client: Client) -> None:
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "4", status={"version": {"kubernetes": "1"}})]
    found = await client.get(MANAGED_CLUSTERS, KEY)
    precondition = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}

    await client.patch(MANAGED_CLUSTERS, KEY, {"metadata": precondition, "status": {"a": 1}}, subresource="status")

    event = server.published[-1]
    sent = orjson.loads(event.binary_data)
    assert event.type == f"{CLUSTER}.status.update_request"
    assert (sent["metadata"]["resourceVersion"], sent["status"]) == ("4", {"version": {"kubernetes": "1"}, "a": 1})


async def test_finalizer_of_a_work_is_requested_by_its_status(server: ScriptedServer, client: Client) -> None:
    server.objects[WORK] = [work_event(server, 2)]

    changed = await client.patch(MANIFEST_WORKS, WORK_KEY, {"metadata": {"finalizers": ["f"]}})

    assert changed["metadata"]["finalizers"] == ["f"]
    assert server.published[-1].type == f"{WORK}.status.update_request"
    assert server.published[-1].attributes["ce-resourceversion"].ce_integer == 2


async def test_certificate_request_is_created_under_its_own_name(server: ScriptedServer, client: Client) -> None:
    request = {"metadata": {"name": "edge-1"}, "spec": {"signerName": "open-cluster-management.io/grpc"}}

    await client.create(CERTIFICATE_SIGNING_REQUESTS, request)

    assert orjson.loads(server.published[-1].binary_data) == request


async def test_token_is_the_one_with_our_identifier(server: ScriptedServer, client: Client) -> None:
    def answer(event: object) -> None:
        sent = orjson.loads(event.binary_data)  # type: ignore[attr-defined]
        status = {"token": "ours", "expirationTimestamp": "2030-01-01T00:00:00Z"}
        for uid, token in (("another", "theirs"), (sent["metadata"]["uid"], "ours")):
            found = {**sent, "metadata": {**sent["metadata"], "uid": uid}, "status": {**status, "token": token}}
            server.send(DataType.TOKEN_REQUEST, server.event(f"{DataType.TOKEN_REQUEST}.spec.create_request", found))

    server.on_publish = answer

    granted = await request_token(client, ObjectKey("edge", "addon-agent"), expiration_seconds=600)

    assert granted.token.reveal() == "ours"


async def test_request_under_way_ends_although_the_transport_is_closed(server: ScriptedServer, client: Client) -> None:
    server.objects[CLUSTER] = [cluster_event(server, "resync_response", "1")]
    under_way = asyncio.ensure_future(client.get(MANAGED_CLUSTERS, KEY))
    await server.subscribed.get()

    await client.close()

    assert (await under_way)["metadata"]["name"] == "edge"
    with pytest.raises(Unreachable, match="is closed"):
        await client.get(MANAGED_CLUSTERS, KEY)


async def test_request_that_is_cancelled_while_its_connection_is_lost_is_cancelled(server: ScriptedServer) -> None:
    channel = EventChannel(server.endpoint, GrpcCredential(token=Sensitive("token")), cluster="edge")
    publishing = asyncio.create_task(channel.publish(resync_request(DataType.LEASE, {}, "edge")))

    def stop(_: object) -> None:
        publishing.cancel()
        channel.close()

    server.on_publish = stop
    await asyncio.wait({publishing})

    assert publishing.cancelled()


def send_created_request(server: ScriptedServer) -> None:
    """Let the server send each certificate request that is created to those who are subscribed in that moment."""

    def answer(event: Any) -> None:
        if event.type.endswith("create_request"):
            sent = orjson.loads(event.binary_data)
            sent["metadata"] |= {"uid": "u9", "resourceVersion": "7"}
            server.send(REQUEST, server.event(f"{REQUEST}.spec.create_request", sent, resourceid="u9"))

    server.on_publish = answer


async def test_created_object_is_the_hubs_without_a_watch(server: ScriptedServer, client: Client) -> None:
    send_created_request(server)

    created = await client.create(CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"name": "edge-1"}, "spec": {}})

    assert created["metadata"]["uid"] == "u9"


async def test_object_that_the_hub_has_sent_is_not_created_again(server: ScriptedServer, client: Client) -> None:
    send_created_request(server)
    request = {"metadata": {"name": "edge-1"}, "spec": {}}
    await client.create(CERTIFICATE_SIGNING_REQUESTS, request)

    with pytest.raises(AlreadyExists, match="'edge-1' already exists"):
        await client.create(CERTIFICATE_SIGNING_REQUESTS, request)

    assert [event.type for event in server.published].count(f"{REQUEST}.spec.create_request") == 1
