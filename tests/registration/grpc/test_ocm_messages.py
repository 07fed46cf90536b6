"""A replay of what the agents of Open Cluster Management send, with the fields that Go writes for empty values."""

from __future__ import annotations

import uuid

import orjson
import pytest
from tests.registration.grpc.grpc_hub import (
    ADDON,
    CLUSTER,
    CSR,
    LEASE,
    TOKEN,
    WORK,
    GrpcAgent,
    GrpcHub,
    a_certificate_request,
    next_event,
)

from watchword.api.addon import certificate_subject
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
)
from watchword.pki.keys import PrivateKey
from watchword.testing.builders import an_addon
from watchword.testing.eventually import eventually, is_gone

pytestmark = pytest.mark.real_time

GO_EMPTY = {"creationTimestamp": None}


async def register(hub: GrpcHub, name: str) -> GrpcAgent:
    """Send what the registration agent sends before its cluster is accepted."""
    joining = hub.with_token(name, await hub.bootstrap_token())
    cluster: Object = {
        "kind": "ManagedCluster",
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "metadata": {"name": name, **GO_EMPTY},
        "spec": {
            "managedClusterClientConfigs": [{"url": "https://edge.example.com", "caBundle": "YQ=="}],
            "hubAcceptsClient": False,
            "leaseDurationSeconds": 60,
        },
        "status": {"conditions": None, "version": {}},
    }
    await joining.publish(f"{CLUSTER}.spec.create_request", cluster)
    request = a_certificate_request(name, PrivateKey.generate())
    request["metadata"] |= {"name": f"{name}-abcde", "generateName": f"{name}-", **GO_EMPTY}
    request["status"] = {}
    await joining.publish(f"{CSR}.spec.create_request", request)
    return joining


async def test_registration_agent_registers(hub: GrpcHub) -> None:
    await hub.start()
    name = hub.fleet.name()

    joining = await register(hub, name)
    async with joining.subscribed(CSR) as call:
        await joining.resync(CSR)
        event = await next_event(call)

    stored = await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert stored["spec"]["managedClusterClientConfigs"] == [{"url": "https://edge.example.com", "caBundle": "YQ=="}]
    assert await hub.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(f"{name}-abcde"))
    assert orjson.loads(event.binary_data)["kind"] == "CertificateSigningRequest"


async def test_registration_agent_keeps_its_cluster_alive(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted_and_left_alone()
    agent = hub.agent(name)
    lease, cluster = await hub.lease(name), await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    version = lease["metadata"]["resourceVersion"]

    await agent.publish(
        f"{LEASE}.spec.update_request",
        {**lease, "spec": {**lease["spec"], "renewTime": "2026-01-02T03:04:05.000000Z"}},
        resourceid=lease["metadata"]["uid"],
        resourceversion=version,
    )
    await agent.publish(
        f"{CLUSTER}.status.update_request",
        {**cluster, "status": {**cluster["status"], "capacity": {"cpu": "4"}}},
        resourceid=cluster["metadata"]["uid"],
        resourceversion=cluster["metadata"]["resourceVersion"],
    )

    assert (await hub.lease(name))["spec"]["renewTime"] == "2026-01-02T03:04:05.000000Z"
    reported = await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert reported["status"]["capacity"] == {"cpu": "4"}


async def test_registration_agent_obtains_a_token(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    await hub.allow_tokens(name, "demo-agent")
    agent, request_id = hub.agent(name), str(uuid.uuid4())
    request = {
        "metadata": {"name": "demo-agent", "namespace": name, "uid": request_id, **GO_EMPTY},
        "spec": {"audiences": None, "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"token": "", "expirationTimestamp": None},
    }

    async with agent.subscribed(TOKEN) as call:
        await agent.publish(f"{TOKEN}.spec.create_request", request, resourceid=request_id)
        answer = orjson.loads((await next_event(call)).binary_data)

    assert answer["metadata"]["uid"] == request_id
    assert answer["status"]["token"]


async def test_work_agent_reports_a_bundle(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    work = await hub.work(agent, "w")
    labels = {"cloudevents.open-cluster-management.io/originalsource": "kube"}
    metadata = {**work["metadata"], "resourceVersion": "", "labels": labels}
    conditions = [hub.condition("Applied"), hub.condition("Available")]
    status = {"conditions": conditions, "resourceStatus": [{"resourceMeta": {"ordinal": 0}, "conditions": conditions}]}

    await agent.publish(
        f"{WORK}.status.update_request",
        status,
        resourceid=work["metadata"]["uid"],
        resourceversion=1,
        sequenceid="1834773391719010304",
        originalsource="kube",
        statushash="abc",
        metadata=orjson.dumps(metadata).decode(),
    )

    stored = await hub.client.get(MANIFEST_WORKS, ObjectKey(name, "w"))
    assert [row["type"] for row in stored["status"]["conditions"]] == ["Applied", "Available"]
    assert stored["status"]["resourceStatus"]["manifests"][0]["resourceMeta"] == {"ordinal": 0}


async def test_registration_agent_declares_the_identity_of_an_addon(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted_and_left_alone()
    agent, key = hub.agent(name), ObjectKey(name, "demo")
    addon = await hub.client.create(MANAGED_CLUSTER_ADDONS, an_addon("demo", cluster=name))
    subject = certificate_subject(name, "demo").document()
    reference = {"group": "", "resource": "configmaps", "lastObservedGeneration": 0}
    status = {
        "addOnMeta": {},
        "configReferences": [{**reference, "desiredConfig": None, "lastAppliedConfig": None}],
        "registrations": [{"type": "kubeClient", "kubeClient": {"subject": subject, "driver": "csr"}}],
        "healthCheck": {},
    }

    await agent.publish(
        f"{ADDON}.status.update_request",
        {**addon, "spec": {}, "status": status},
        resourceid=addon["metadata"]["uid"],
        resourceversion=addon["metadata"]["resourceVersion"],
    )

    stored = await hub.client.get(MANAGED_CLUSTER_ADDONS, key)
    assert stored["status"]["registrations"] == status["registrations"]
    assert stored["status"]["configReferences"] == [reference]


async def test_registration_agent_asks_for_everything_of_every_source(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted_and_left_alone()
    agent, cluster = hub.agent(name), await hub.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    known = [{"resourceID": "gone", "resourceVersion": 7}]

    async with agent.subscribed(CLUSTER) as call:
        await agent.publish(f"{CLUSTER}.spec.resync_request", {"resourceVersions": known}, originalsource="+")
        events = [await next_event(call), await next_event(call)]

    assert [event.attributes["ce-resourceid"].ce_string for event in events] == [cluster["metadata"]["uid"], "gone"]
    assert events[0].attributes["ce-resourceversion"].ce_string == cluster["metadata"]["resourceVersion"]
    assert not events[1].binary_data


async def test_work_agent_reports_that_a_bundle_is_removed(hub: GrpcHub) -> None:
    await hub.start()
    name = await hub.accepted()
    agent = hub.agent(name)
    work = await hub.work(agent, "w")
    common: dict[str, object] = {"resourceid": work["metadata"]["uid"], "originalsource": "kube", "statushash": "abc"}
    applied = {"conditions": [hub.condition("Applied")], "resourceStatus": None}
    deleted = {**hub.condition("Deleted"), "reason": "ManifestsDeleted"}

    await agent.publish(f"{WORK}.status.update_request", applied, resourceversion=1, sequenceid="1", **common)
    async with agent.subscribed(WORK) as call:
        await hub.client.delete(MANIFEST_WORKS, ObjectKey(name, "w"))
        announced = await next_event(call)
    gone = {"conditions": [deleted], "resourceStatus": None}
    version = announced.attributes["ce-resourceversion"].ce_integer
    await agent.publish(f"{WORK}.status.update_request", gone, resourceversion=version, sequenceid="2", **common)

    assert announced.attributes["ce-deletiontimestamp"].HasField("ce_timestamp")
    await eventually(hub.client, MANIFEST_WORKS, ObjectKey(name, "w"), is_gone)
