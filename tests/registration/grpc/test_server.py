"""What an agent does over gRPC, with a client that is not ours."""

from __future__ import annotations

import uuid
from datetime import timedelta
from random import Random

import grpc
import grpc.aio
import orjson
import pytest
from tests.helpers.fault_injection import FaultPlan, FaultyTransport, WatchFaults
from tests.registration.grpc.grpc_hub import (
    ADDON,
    CLUSTER,
    CSR,
    EVENT,
    LEASE,
    TOKEN,
    WORK,
    GrpcHub,
    a_certificate_request,
    next_event,
    refusal,
)

from watchword.api.meta import ObjectKey, annotations_of, finalizers_of, labels_of
from watchword.api.names import Annotation, Finalizer, agent_user, service_account_user
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    EVENTS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from watchword.kube.errors import NotFound
from watchword.kube.transport import Transport
from watchword.pki.keys import PrivateKey
from watchword.testing.builders import a_cluster, an_addon
from watchword.testing.eventually import eventually

pytestmark = pytest.mark.real_time


async def test_agent_renews_its_lease(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    lease = await hub.lease(name)
    lease["spec"]["holderIdentity"] = "agent-1"

    await hub.agent(name).publish(f"{LEASE}.spec.update_request", lease)

    renewed = await hub.lease(name)
    assert renewed["spec"]["holderIdentity"] == "agent-1"
    assert labels_of(renewed) == labels_of(lease)  # by which the hub's controllers find it


async def test_outdated_lease_is_refused_with_the_reason_of_the_api_server(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    lease = await hub.lease(name)
    lease["metadata"]["resourceVersion"] = "1"

    code, status = await hub.agent(name).refused(f"{LEASE}.spec.update_request", lease)

    assert code == "FAILED_PRECONDITION"
    assert (status["reason"], status["code"]) == ("Conflict", 409)
    assert status["message"]


async def test_agent_receives_its_cluster_by_resync_and_every_change(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)

    async with agent.subscribed(CLUSTER) as call:
        await agent.resync(CLUSTER)
        event = await next_event(call)
        cluster = orjson.loads(event.binary_data)
        patch = {"metadata": {"labels": {"changed": "true"}}}
        await hub.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)
        while (
            orjson.loads((changed := await next_event(call)).binary_data)["metadata"]["labels"].get("changed") is None
        ):
            continue

    assert (event.type, event.source) == (f"{CLUSTER}.spec.resync_response", "kube")
    assert event.attributes["ce-clustername"].ce_string == cluster["metadata"]["name"] == name
    assert event.attributes["ce-resourceid"].ce_string == cluster["metadata"]["uid"]
    assert event.attributes["ce-resourceversion"].ce_string == cluster["metadata"]["resourceVersion"]
    assert changed.type == f"{CLUSTER}.spec.update_request"


async def test_resync_sends_what_differs_and_the_deletion_of_what_is_gone(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    kept, newer = [await hub.work(agent, each) for each in ("kept", "newer")]

    async with agent.subscribed(WORK) as call:
        await agent.resync(
            WORK,
            {"resourceID": kept["metadata"]["uid"], "resourceVersion": 1},
            {"resourceID": newer["metadata"]["uid"], "resourceVersion": 0},
            {"resourceID": "gone", "resourceVersion": 3},
        )
        found = [await next_event(call), await next_event(call)]

    by_id = {event.attributes["ce-resourceid"].ce_string: event for event in found}
    assert set(by_id) == {newer["metadata"]["uid"], "gone"}
    assert by_id["gone"].attributes["ce-deletiontimestamp"].HasField("ce_timestamp")
    assert not by_id["gone"].binary_data
    bundle = by_id[newer["metadata"]["uid"]]
    assert orjson.loads(bundle.binary_data)["manifests"] == newer["spec"]["workload"]["manifests"]
    assert bundle.attributes["ce-resourceversion"].ce_integer == 1
    assert orjson.loads(bundle.attributes["ce-metadata"].ce_string)["name"] == "newer"


async def test_agent_reports_a_work_and_removes_it(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    work = await hub.work(agent, "w")
    about = {"resourceid": work["metadata"]["uid"], "resourceversion": 1, "sequenceid": "1"}
    key = ObjectKey(name, "w")

    await agent.publish(f"{WORK}.status.update_request", {"conditions": [hub.condition("Applied")]}, **about)

    applied = await hub.client.get(MANIFEST_WORKS, key)
    assert applied["status"]["conditions"][0]["type"] == "Applied"
    assert Finalizer.MANIFEST_WORK in finalizers_of(applied)

    await hub.client.delete(MANIFEST_WORKS, key)
    await agent.publish(f"{WORK}.status.update_request", {"conditions": [hub.condition("Deleted")]}, **about)

    with pytest.raises(NotFound):
        await hub.client.get(MANIFEST_WORKS, key)


async def test_work_is_released_before_the_server_has_seen_that_it_is_held(hub: GrpcHub) -> None:
    roads: list[FaultyTransport] = []

    def through(transport: Transport) -> Transport:
        roads.append(FaultyTransport(transport, FaultPlan(), Random(1)))
        return roads[0]

    await hub.start(through=through)
    name = await hub.accepted()
    agent = hub.agent(name)
    work = await hub.work(agent, "w")
    about = {"resourceid": work["metadata"]["uid"], "resourceversion": 1, "sequenceid": "1"}
    roads[0].plan = FaultPlan(watch=WatchFaults(stall=1.0))  # the server learns no more

    for report in ("Applied", "Available"):
        await agent.publish(f"{WORK}.status.update_request", {"conditions": [hub.condition(report)]}, **about)
    await hub.client.delete(MANIFEST_WORKS, ObjectKey(name, "w"))
    await agent.publish(f"{WORK}.status.update_request", {"conditions": [hub.condition("Deleted")]}, **about)

    with pytest.raises(NotFound):
        await hub.client.get(MANIFEST_WORKS, ObjectKey(name, "w"))


async def test_report_about_an_earlier_version_of_a_work_is_ignored(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    work = await hub.work(agent, "w")
    about = {"resourceid": work["metadata"]["uid"], "resourceversion": 0, "sequenceid": "1"}

    await agent.publish(f"{WORK}.status.update_request", {"conditions": [hub.condition("Applied")]}, **about)

    assert "status" not in await hub.client.get(MANIFEST_WORKS, ObjectKey(name, "w"))


async def test_agent_reports_the_status_of_its_cluster_and_of_an_addon(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted_and_left_alone()
    agent = hub.agent(name)
    addon = await hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon("demo", cluster=name))
    cluster = await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    ours = hub.condition("Available")

    await agent.publish(
        f"{CLUSTER}.status.update_request",
        {**cluster, "status": {**cluster["status"], "version": {"kubernetes": "v1"}}},
    )
    await agent.publish(f"{ADDON}.status.update_request", {**addon, "status": {"conditions": [ours]}})

    reported = await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert reported["status"]["version"] == {"kubernetes": "v1"}
    found = await hub.client.get(MANAGED_CLUSTER_ADDONS, ObjectKey(name, "demo"))
    assert [row["type"] for row in found["status"]["conditions"]] == ["Available"]


async def test_agent_records_an_event_and_its_repetition(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    event = hub.event("started.1", name)

    await agent.publish(f"{EVENT}.spec.create_request", event)
    series = {"count": 2, "lastObservedTime": event["eventTime"]}
    repeated = {"metadata": {"name": "started.1", "namespace": name}, "series": series}
    await agent.publish(f"{EVENT}.spec.update_request", repeated)

    recorded = await hub.client.get(EVENTS, ObjectKey(name, "started.1"))
    assert (recorded["reason"], recorded["series"]["count"]) == ("Started", 2)


async def test_cluster_registers_with_a_bootstrap_token(hub: GrpcHub) -> None:
    await hub.start()
    name, token = hub.fleet.name(), await hub.bootstrap_token()
    joining = hub.with_token(name, token)
    request = a_certificate_request(name, PrivateKey.generate())

    await joining.publish(f"{CLUSTER}.spec.create_request", a_cluster(name))
    async with joining.subscribed(CSR) as call:
        await joining.publish(f"{CSR}.spec.create_request", request)
        event = await next_event(call)

    assert (await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)))["spec"]["hubAcceptsClient"] is False
    stored = await hub.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.of(request))
    assert annotations_of(stored)[Annotation.CSR_USER] == hub.bootstrap_user
    assert orjson.loads(event.binary_data)["metadata"]["name"] == request["metadata"]["name"]
    assert event.type == f"{CSR}.spec.create_request"


async def test_answer_to_a_token_request_reaches_the_requester_alone(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    await hub.allow_tokens(name, "demo-agent")
    asking, other = hub.agent(name), hub.agent(name)
    request_id = str(uuid.uuid4())
    request = {"metadata": {"name": "demo-agent", "namespace": name, "uid": request_id}, "spec": {}}

    async with asking.subscribed(TOKEN) as own, other.subscribed(TOKEN) as foreign:
        await asking.publish(f"{TOKEN}.spec.create_request", request)
        answer = orjson.loads((await next_event(own)).binary_data)
        await other.publish(
            f"{TOKEN}.spec.create_request", {**request, "metadata": {**request["metadata"], "uid": "2"}}
        )
        seen = orjson.loads((await next_event(foreign)).binary_data)

    assert answer["metadata"]["uid"] == request_id
    assert seen["metadata"]["uid"] == "2"  # and nothing before it
    assert await hub.user_of(answer["status"]["token"]) == service_account_user(name, "demo-agent")


async def test_token_request_without_a_subscription_mints_nothing(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    await hub.allow_tokens(name, "demo-agent")
    request = {"metadata": {"name": "demo-agent", "namespace": name, "uid": "1"}, "spec": {}}

    code, status = await hub.agent(name).refused(f"{TOKEN}.spec.create_request", request)

    assert (code, status["reason"]) == ("INVALID_ARGUMENT", "BadRequest")


async def test_heartbeats_show_that_a_stream_is_alive(hub: GrpcHub) -> None:
    await hub.start(hub.limits(heartbeat_seconds=0.1))
    name = await hub.accepted()

    async with hub.agent(name).subscribed(LEASE) as call:
        first, second = await call.read(), await call.read()

    assert {first.type, second.type} == {"io.open-cluster-management.cloudevents.heartbeat"}
    assert first.id != second.id


async def test_open_streams_of_a_denied_cluster_end_and_its_certificate_opens_nothing(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    lease = await hub.lease(name)

    async with agent.subscribed(LEASE) as call:
        await agent.publish(f"{LEASE}.spec.update_request", lease)  # the review is remembered
        denial = {"spec": {"hubAcceptsClient": False}}
        await hub.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), denial)
        code, status = await refusal(_read_to_the_end(call))

    assert (code, status["reason"]) == ("PERMISSION_DENIED", "Forbidden")
    for type_, data in ((f"{LEASE}.spec.update_request", lease), (f"{CLUSTER}.spec.resync_request", {})):
        code, status = await agent.refused(type_, data)
        assert (code, status["reason"]) == ("PERMISSION_DENIED", "Forbidden")
    async with agent.unsubscribed(CLUSTER) as call:
        assert (await refusal(_read_to_the_end(call)))[0] == "PERMISSION_DENIED"


async def _read_to_the_end(call: object) -> None:
    while await call.read() is not grpc.aio.EOF:  # type: ignore[attr-defined]
        continue
    code = await call.code()  # type: ignore[attr-defined]
    raise grpc.aio.AioRpcError(
        code,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(),
        details=await call.details(),  # type: ignore[attr-defined]
    )


async def test_server_that_stops_sends_its_agents_to_another_one(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()

    async with hub.agent(name).subscribed(LEASE) as call:
        hub.stop.set()
        code, status = await refusal(_read_to_the_end(call))

    assert (code, status["reason"]) == ("UNAVAILABLE", "ServiceUnavailable")
    assert hub.task is not None
    await hub.task


async def test_replaced_authority_is_trusted_without_a_restart(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    successor = hub.new_authority()
    lease = await hub.lease(name)
    code, _ = await refusal(
        hub.agent(name, authority=successor).publish(f"{LEASE}.spec.update_request", lease), raw=True
    )
    assert code == "UNAVAILABLE"  # the handshake fails

    hub.write_files(roots=(successor,))

    await hub.agent(name, authority=successor).publish(f"{LEASE}.spec.update_request", lease)
    code, _ = await refusal(hub.agent(name).publish(f"{LEASE}.spec.update_request", lease), raw=True)
    assert code == "UNAVAILABLE"


async def test_open_connection_of_a_removed_authority_opens_nothing(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent, lease = hub.agent(name), await hub.lease(name)
    await agent.publish(f"{LEASE}.spec.update_request", lease)

    hub.write_files(roots=(hub.new_authority(),))
    code, status = await agent.refused(f"{LEASE}.spec.update_request", lease)

    assert (code, status["reason"]) == ("UNAUTHENTICATED", "Unauthorized")


async def test_expired_certificate_is_refused(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name, lifetime=timedelta(seconds=-1))

    code, status = await agent.refused(f"{LEASE}.spec.update_request", await hub.lease(name))

    assert (code, status["reason"]) == ("UNAUTHENTICATED", "Unauthorized")


async def test_add_on_certificate_of_the_signer_is_no_agent(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name, name=f"{agent_user(name, 'addon')}:demo")

    code, status = await agent.refused(f"{LEASE}.spec.update_request", await hub.lease(name))

    assert (code, status["reason"]) == ("UNAUTHENTICATED", "Unauthorized")


async def test_many_requests_of_one_user_are_slowed_down(hub: GrpcHub) -> None:
    await hub.start(hub.limits(requests_per_second=0.001, burst=2))
    name = await hub.accepted()
    agent, lease = hub.agent(name), await hub.lease(name)

    await agent.publish(f"{LEASE}.spec.update_request", lease)
    await agent.publish(f"{LEASE}.spec.update_request", await hub.lease(name))
    code, status = await agent.refused(f"{LEASE}.spec.update_request", await hub.lease(name))

    assert (code, status["reason"]) == ("RESOURCE_EXHAUSTED", "TooManyRequests")


async def test_two_replicas_serve_the_same_cluster(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    first = hub.agent(name)
    async with hub.replica() as replica:
        second = replica.agent(name)
        async with second.subscribed(LEASE) as call:
            lease = await hub.lease(name)
            await first.publish(f"{LEASE}.spec.update_request", {**lease, "spec": {"holderIdentity": "agent-1"}})
            event = await next_event(call)

    assert orjson.loads(event.binary_data)["spec"]["holderIdentity"] == "agent-1"


async def test_add_on_of_the_older_version_is_served(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    await hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon("demo", cluster=name))
    older = ADDON.replace("v1beta1", "v1alpha1")

    async with agent.subscribed(older) as call:
        await agent.resync(older)
        event = await next_event(call)

    assert orjson.loads(event.binary_data)["apiVersion"] == "addon.open-cluster-management.io/v1alpha1"


async def test_accepted_cluster_is_written_as_it_was_read(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted_and_left_alone()
    cluster = await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    cluster["metadata"]["annotations"] = {"agent.open-cluster-management.io/note": "1"}
    cluster["spec"]["managedClusterClientConfigs"] = [{"url": "https://edge.example.com"}]

    await hub.agent(name).publish(f"{CLUSTER}.spec.update_request", cluster)

    changed = await eventually(hub.client, MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert annotations_of(changed)["agent.open-cluster-management.io/note"] == "1"
    assert changed["spec"]["managedClusterClientConfigs"] == [{"url": "https://edge.example.com"}]
    assert changed["spec"]["hubAcceptsClient"] is True
