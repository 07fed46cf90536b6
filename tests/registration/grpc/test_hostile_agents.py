"""Agents that lie: about their cluster, about their payload, about sizes. Nothing is written for another cluster."""

from __future__ import annotations

import asyncio
import random
import ssl
from typing import Any

import grpc
import grpc.aio
import h2.config
import h2.connection
import h2.settings
import orjson
import pytest
from tests.registration.grpc.grpc_hub import (
    ADDON,
    CLUSTER,
    CSR,
    EVENT,
    LEASE,
    TOKEN,
    WORK,
    GrpcAgent,
    GrpcHub,
    a_certificate_request,
    refusal,
)

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER, Annotation, agent_user
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
)
from watchword.kube.errors import NotFound
from watchword.pki.keys import PrivateKey
from watchword.registration.grpc.cloud_events import Action, DataType, SubResource
from watchword.testing.builders import a_cluster, an_addon

pytestmark = pytest.mark.real_time

FLEET_KINDS = (
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_ADDONS,
    MANIFEST_WORKS,
    LEASES,
    CERTIFICATE_SIGNING_REQUESTS,
    EVENTS,
    SECRETS,
)


async def state_of(hub: GrpcHub, cluster: str) -> Object:
    """Return what the hub has of a cluster, by kind and name."""
    found: Object = {}
    for kind in FLEET_KINDS:
        for obj in (await hub.client.list(kind, namespace=cluster if kind.namespaced else "")).items:
            name = obj["metadata"]["name"]
            if kind.namespaced or cluster in name:
                found[f"{kind.plural}/{name}"] = obj["metadata"]["resourceVersion"]
    return found


async def victim_of(hub: GrpcHub) -> tuple[str, dict[str, Object]]:
    """Return a cluster with one object of each kind."""
    name = await hub.accepted("victim")
    await hub.allow_tokens(name, "demo-agent")
    addon = await hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon("demo", cluster=name))
    work = await hub.work(hub.agent(name), "w")
    cluster = await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    objects = {
        f"{CLUSTER}.spec.create_request": a_cluster(hub.fleet.plane.unique("new")),
        f"{CLUSTER}.spec.update_request": cluster,
        f"{CLUSTER}.status.update_request": cluster,
        f"{ADDON}.status.update_request": {**addon, "status": {"conditions": [hub.condition("Available")]}},
        f"{LEASE}.spec.update_request": await hub.lease(name),
        f"{EVENT}.spec.create_request": hub.event("forged.1", name),
        f"{CSR}.spec.create_request": a_certificate_request(name, PrivateKey.generate()),
        f"{TOKEN}.spec.create_request": {"metadata": {"name": "demo-agent", "namespace": name, "uid": "1"}, "spec": {}},
        f"{WORK}.status.update_request": {"conditions": [hub.condition("Deleted")]},
    }
    about = {"resourceid": work["metadata"]["uid"], "resourceversion": 1, "sequenceid": "1"}
    return name, {type_: {"data": data, "about": about if WORK in type_ else {}} for type_, data in objects.items()}


async def test_payload_of_another_cluster_under_the_own_name_is_refused(hub: GrpcHub) -> None:
    await hub.start()
    own = await hub.accepted("own")
    victim, events = await victim_of(hub)
    agent, before = hub.agent(own), await state_of(hub, victim)

    for type_, row in events.items():
        code, status = await agent.refused(type_, row["data"], **row["about"])
        assert (code, status["reason"]) == ("PERMISSION_DENIED", "Forbidden"), type_

    assert await state_of(hub, victim) == before


async def test_event_in_the_name_of_another_cluster_is_refused(hub: GrpcHub) -> None:
    await hub.start()
    own = await hub.accepted("own")
    victim, events = await victim_of(hub)
    agent, before = hub.agent(own), await state_of(hub, victim)

    for type_, row in events.items():
        code, status = await agent.refused(type_, row["data"], clustername=victim, **row["about"])
        assert code in ("PERMISSION_DENIED", "INVALID_ARGUMENT"), (type_, status)
    for data_type in DataType:
        async with agent.unsubscribed(data_type, cluster=victim) as call:
            assert await call.code() is grpc.StatusCode.PERMISSION_DENIED
        code, _ = await agent.refused(f"{data_type}.spec.resync_request", {"resourceVersions": []}, clustername=victim)
        assert code in ("PERMISSION_DENIED", "INVALID_ARGUMENT")

    assert await state_of(hub, victim) == before


async def test_agent_neither_accepts_its_cluster_nor_forges_what_the_hub_has_noted(hub: GrpcHub) -> None:
    await hub.start()
    name = hub.fleet.name()
    joining = hub.with_token(name, await hub.bootstrap_token())
    await joining.refused(f"{CLUSTER}.spec.create_request", a_cluster(name, accepted=True))
    forged = a_cluster(name, annotations={Annotation.FIRST_KEY: "agent key 2026-01-01T00:00:00Z"})

    code, status = await joining.refused(f"{CLUSTER}.spec.create_request", forged)

    assert (code, status["reason"]) == ("FAILED_PRECONDITION", "Forbidden")  # the hub's admission policy
    with pytest.raises(NotFound):
        await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))


async def test_certificate_of_another_agent_than_the_accepted_one_is_refused(hub: GrpcHub) -> None:
    name = hub.fleet.name()
    noted = {Annotation.FIRST_KEY: f"agent-1 {'0' * 64} 2026-01-01T00:00:00Z"}
    await hub.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True, annotations=noted))
    await hub.fleet.condition(name, "HubAcceptedManagedCluster", "True")
    await hub.start()

    forged = hub.agent(name, name=agent_user(name, "agent-2"))
    code, status = await forged.refused(f"{LEASE}.spec.update_request", await hub.lease(name))
    await hub.agent(name).publish(f"{LEASE}.spec.update_request", await hub.lease(name))

    assert (code, status["code"]) == ("PERMISSION_DENIED", 403)
    assert "not that of the agent whose key the hub accepted" in status["message"]


async def test_no_certificate_is_accepted_while_the_recorded_key_cannot_be_read(hub: GrpcHub) -> None:
    name = hub.fleet.name()
    await hub.client.create(
        MANAGED_CLUSTERS, a_cluster(name, accepted=True, annotations={Annotation.FIRST_KEY: "agent-1"})
    )
    await hub.fleet.condition(name, "HubAcceptedManagedCluster", "True")
    await hub.start()

    code, _ = await hub.agent(name).refused(f"{LEASE}.spec.update_request", await hub.lease(name))

    assert code == "PERMISSION_DENIED"


async def test_identity_on_a_certificate_request_is_that_of_the_caller(hub: GrpcHub) -> None:
    await hub.start()
    name = hub.fleet.name()
    joining = hub.with_token(name, await hub.bootstrap_token())
    request = a_certificate_request(name, PrivateKey.generate())
    request["metadata"]["annotations"] = {Annotation.CSR_USER: "system:admin", Annotation.CSR_GROUPS: "[]"}

    await joining.publish(f"{CSR}.spec.create_request", request)

    stored = await hub.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.of(request))
    assert stored["metadata"]["annotations"][Annotation.CSR_USER] == hub.bootstrap_user
    assert "system:serviceaccounts" in orjson.loads(stored["metadata"]["annotations"][Annotation.CSR_GROUPS])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"user": "system:admin"}, id="another subject"),
        pytest.param({"signer": "kubernetes.io/kubelet-serving"}, id="another signer"),
        pytest.param({"label": "other"}, id="label of another cluster"),
        pytest.param({"user": "system:admin", "signer": KUBE_CLIENT_SIGNER}, id="administrator of the hub"),
    ],
)
async def test_certificate_request_that_no_agent_sends_is_not_created(hub: GrpcHub, change: dict[str, str]) -> None:
    await hub.start()
    name = hub.fleet.name()
    joining = hub.with_token(name, await hub.bootstrap_token())
    request = a_certificate_request(name, PrivateKey.generate(), **change)

    code, _ = await joining.refused(f"{CSR}.spec.create_request", request)

    assert code in ("INVALID_ARGUMENT", "PERMISSION_DENIED")
    with pytest.raises(NotFound):
        await hub.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.of(request))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"audiences": ["https://other.example.com"]}, id="for another audience"),
        pytest.param({"expirationSeconds": 10 * 366 * 24 * 3600}, id="for ten years"),
        pytest.param({"expirationSeconds": "3600"}, id="of another type"),
        pytest.param({"boundObjectRef": {"kind": "Pod", "name": "p"}}, id="bound to an object"),
    ],
)
async def test_token_that_agents_may_not_request_is_refused(hub: GrpcHub, spec: Object) -> None:
    await hub.start()
    name = await hub.accepted()
    await hub.allow_tokens(name, "demo-agent")
    agent = hub.agent(name)
    request = {"metadata": {"name": "demo-agent", "namespace": name, "uid": "1"}, "spec": spec}

    async with agent.subscribed(TOKEN):
        code, status = await agent.refused(f"{TOKEN}.spec.create_request", request)

    assert (code, status["reason"]) == ("PERMISSION_DENIED", "Forbidden")


async def test_caller_without_a_credential_is_refused(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()

    for caller in (hub.anonymous(name), hub.with_token(name, "no-token"), hub.with_token(name, "")):
        code, status = await caller.refused(f"{LEASE}.spec.update_request", await hub.lease(name))
        assert (code, status["reason"]) == ("UNAUTHENTICATED", "Unauthorized")
        async with caller.unsubscribed(CLUSTER) as call:
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_bearer_token_does_not_appear_in_log_or_answer(hub: GrpcHub, canary: Any) -> None:
    await hub.start()
    name = hub.fleet.name()
    token = canary.plant("bearer")

    _, status = await hub.with_token(name, token).refused(f"{CLUSTER}.spec.create_request", a_cluster(name))

    canary.assert_not_leaked("the answer", str(status))


async def test_oversized_message_is_refused_and_the_connection_lives_on(hub: GrpcHub) -> None:
    await hub.start(hub.limits(message_bytes=64 * 1024))
    name = await hub.accepted()
    agent, lease = hub.agent(name), await hub.lease(name)
    lease["metadata"]["annotations"] = {"large": "x" * 1024 * 1024}

    code, status = await agent.refused(f"{LEASE}.spec.update_request", lease)

    assert (code, status["reason"]) == ("RESOURCE_EXHAUSTED", "RequestEntityTooLarge")
    await agent.publish(f"{LEASE}.spec.update_request", await hub.lease(name))


def mutations(agent: GrpcAgent, type_: str, data: Object, rng: random.Random) -> list[Any]:
    """Return events that are wrong in one place each: types, attributes, values, bytes."""
    wrong: list[object] = [None, [], {}, 7, "", "../../x", "\u0000", {"a": [1]}, True, "x" * 300]
    rows = [agent.event(type_, _replaced(data, path, rng.choice(wrong))) for path in _paths(data)]
    values = ["", "..", "x/y", -1, "\u2028", "x" * 300]
    attributes = ("clustername", "resourceid", "resourceversion")
    rows += [agent.event(type_, data, **{name: rng.choice(values)}) for name in attributes]
    whole = orjson.dumps(data)
    rows += [agent.event(type_, whole[: rng.randrange(len(whole))]) for _ in range(3)]
    kinds = [f"{d}.{s}.{a}" for d in DataType for s in SubResource for a in Action]
    rows += [agent.event(kind, data) for kind in rng.sample(kinds, 12)]
    return rows


async def outcome(agent: GrpcAgent, event: Any) -> str:
    """Return the code with which an event ends; every refusal contains a Status."""
    try:
        await agent.send(event)
    except grpc.aio.AioRpcError as error:
        return error.code().name if "ErrStatus" in orjson.loads(error.details() or "{}") else "NO STATUS"
    return "OK"


def _paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [*([at] if at else []), *(path for name, value in inner for path in _paths(value, (*at, name)))]


def _replaced(data: Any, path: tuple[Any, ...], value: object) -> Any:
    copy = orjson.loads(orjson.dumps(data))
    place = copy
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return copy


async def test_mutated_events_crash_nothing_and_write_nothing_for_another_cluster(hub: GrpcHub) -> None:
    await hub.start(hub.limits(requests_per_second=1e6, burst=10**6))
    own = await hub.accepted("own")
    victim, events = await victim_of(hub)
    agent, before, rng = hub.agent(own), await state_of(hub, victim), random.Random(14)
    codes = set()

    for type_, row in events.items():
        for event in mutations(agent, type_, row["data"], rng):
            codes.add(await outcome(agent, event))

    assert codes <= {"OK", "INVALID_ARGUMENT", "PERMISSION_DENIED", "FAILED_PRECONDITION"}
    assert await state_of(hub, victim) == before
    await agent.publish(f"{LEASE}.spec.update_request", await hub.lease(own))


async def test_bytes_that_are_no_http_2_end_one_connection_only(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent, rng = hub.agent(name), random.Random(15)
    await agent.publish(f"{LEASE}.spec.update_request", await hub.lease(name))
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    hostile = [b"GET / HTTP/1.1\r\n\r\n", preface + b"\0\0\1\x99\0\0\0\0\0x"]
    hostile += [preface + rng.randbytes(200) for _ in range(20)]

    for data in hostile:
        reader, writer = await asyncio.open_connection("127.0.0.1", hub.port, ssl=_trusting(hub))
        writer.write(data)
        writer.write_eof() if writer.can_write_eof() else None
        async with asyncio.timeout(20):
            await reader.read(64)
        writer.close()

    await agent.publish(f"{LEASE}.spec.update_request", await hub.lease(name))


async def test_slow_subscriber_is_cut_and_blocks_no_other(hub: GrpcHub) -> None:
    await hub.start(hub.limits(send_seconds=0.2, heartbeat_seconds=0.05))
    name = await hub.accepted()
    token = await hub.bootstrap_token()
    agent = hub.agent(name)

    reader, writer = await asyncio.open_connection("127.0.0.1", hub.port, ssl=_trusting(hub))
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    connection.initiate_connection()
    connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})  # this client never reads
    request = hub.protocol.messages.SubscriptionRequest(cluster_name=name, data_type=CLUSTER).SerializeToString()
    headers = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/io.cloudevents.v1.CloudEventService/Subscribe"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("authorization", f"Bearer {token}"),
    ]
    connection.send_headers(1, headers)
    connection.send_data(1, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)
    writer.write(connection.data_to_send())

    async with asyncio.timeout(20):
        with_others = agent.subscribed(CLUSTER)
        async with with_others as call:
            assert (await call.read()).type.endswith("heartbeat")
            while await reader.read(4096):  # until the server closes the connection
                continue
            assert (await call.read()).type.endswith("heartbeat")
    writer.close()


async def test_message_that_never_arrives_is_not_waited_for(hub: GrpcHub) -> None:
    await hub.start(hub.limits(receive_seconds=0.1))
    name = await hub.accepted()
    channel = hub.agent(name).channel
    call = channel.stream_unary("/io.cloudevents.v1.CloudEventService/Publish")()

    code, status = await refusal(call)

    assert (code, status["reason"]) == ("INVALID_ARGUMENT", "BadRequest")


async def test_newest_connections_do_not_displace_authenticated_ones(hub: GrpcHub) -> None:
    await hub.start(hub.limits(connections=20))
    name = await hub.accepted()
    agent = hub.agent(name)
    await agent.publish(f"{LEASE}.spec.update_request", await hub.lease(name))

    opened = [await asyncio.open_connection("127.0.0.1", hub.port, ssl=_trusting(hub)) for _ in range(40)]

    await agent.publish(f"{LEASE}.spec.update_request", await hub.lease(name))
    for _, writer in opened:
        writer.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_version_is_accepted(hub: GrpcHub, version: ssl.TLSVersion) -> None:
    await hub.start()
    context = _trusting(hub)
    context.minimum_version = context.maximum_version = version

    _, writer = await asyncio.open_connection("127.0.0.1", hub.port, ssl=context)

    assert writer.get_extra_info("ssl_object").version() == version.name.replace("_", ".")
    writer.close()


def _trusting(hub: GrpcHub) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=hub.authority.certificate.pem.decode())
    context.set_alpn_protocols(["h2"])
    return context
