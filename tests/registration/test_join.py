"""How a cluster becomes a member of a hub, and stays one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import cast

import pytest
from tests.helpers.fleet import (
    AGENTS_NAMESPACE,
    AUTOMATIC,
    BOOTSTRAP_USER,
    FleetHarness,
    PlaneConnector,
    lifetime_settings,
    transport_with,
)
from tests.helpers.server_decision import until_refused

from watchword.api.crds import HUB_CRDS
from watchword.api.json import copy_json
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import ConditionType, Label, cluster_role, registration_binding, work_binding
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    MANAGED_CLUSTERS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
)
from watchword.credentials.credential_secret import AGENT_NAME, CLUSTER_NAME, decode_data
from watchword.credentials.driver import KUBECONFIG, CredentialSubject, WantedCredential
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, Invalid
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.keys import PrivateKey
from watchword.registration.hub.cluster_rbac import retired_name_key
from watchword.runtime.manifests import establish_crds
from watchword.testing.eventually import eventually, exists, is_gone


async def held_by(fleet: FleetHarness, name: str) -> dict[str, bytes]:
    return decode_data(await fleet.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))


async def certificate_of(fleet: FleetHarness, name: str) -> Certificate:
    return parse_certificate((await held_by(fleet, name))["tls.crt"])


async def agent_client(fleet: FleetHarness, name: str) -> Client:
    data = await held_by(fleet, name)
    return fleet.plane.adopt(Client(transport_with(fleet.plane, data["tls.crt"], data["tls.key"])))


async def test_allow_listed_cluster_joins_without_an_administrator(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)

    cluster = await fleet.joined(name)

    assert cluster.accepted
    assert cluster.cluster_set == "default"
    for resource, key in (
        (NAMESPACES, ObjectKey.cluster(name)),
        (CLUSTER_ROLES, ObjectKey.cluster(cluster_role(name))),
        (CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(cluster_role(name))),
        (ROLE_BINDINGS, ObjectKey(name, registration_binding(name))),
        (ROLE_BINDINGS, ObjectKey(name, work_binding(name))),
        (LEASES, cluster.lease_key),
    ):
        assert labels_of(await fleet.client.get(resource, key)) == {Label.CLUSTER_NAME: name} or resource is NAMESPACES


async def test_cluster_that_no_list_approves_waits_for_an_administrator(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub()
    fleet.start_agent(name)

    request = await eventually_requested(fleet, name)

    assert not (request.get("status") or {}).get("conditions")
    assert not (await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)))["spec"].get("hubAcceptsClient")


async def eventually_requested(fleet: FleetHarness, name: str) -> Object:
    await eventually(fleet.client, SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"), exists)
    async with asyncio.timeout(20):
        while True:
            found = await fleet.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={name}")
            if found.items:
                return found.items[0]
            await asyncio.sleep(0.05)


async def test_the_secret_holds_everything_another_agent_needs(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)

    data = await held_by(fleet, name)

    assert set(data) == {KUBECONFIG, CLUSTER_NAME, AGENT_NAME, "tls.crt", "tls.key"}
    assert data[CLUSTER_NAME].decode() == name
    subject = parse_certificate(data["tls.crt"]).subject
    assert subject.common_name == f"system:open-cluster-management:{name}:{data[AGENT_NAME].decode()}"


async def test_restarted_agent_keeps_its_identity_without_the_bootstrap_credential(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    agent = fleet.start_agent(name)
    await fleet.joined(name)
    before = await held_by(fleet, name)

    await fleet.stop(agent)
    key = ObjectKey(name, "managed-cluster-lease")
    renewed = (await fleet.client.get(LEASES, key))["spec"].get("renewTime")
    fleet.start_agent(name, connector=PlaneConnector(fleet.plane, may_join=False))
    await eventually(fleet.client, LEASES, key, lambda o: (o or {})["spec"]["renewTime"] != renewed, within=90)

    assert await held_by(fleet, name) == before


async def test_a_denied_cluster_loses_its_rights_at_once(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)

    await fleet.accept(name, accepted=False)
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "HubClusterAdminDenied")

    own = await agent_client(fleet, name)
    for binding in (registration_binding(name), work_binding(name)):
        await eventually(fleet.client, ROLE_BINDINGS, ObjectKey(name, binding), is_gone)
    lease = ObjectKey(name, "managed-cluster-lease")
    await until_refused(lambda: own.patch(LEASES, lease, {"spec": {"holderIdentity": "x"}}))
    assert await own.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))  # it may see that it was denied


@pytest.mark.planes("embedded")  # changes a definition that other tests use
async def test_cluster_with_an_immense_lease_duration_is_denied_and_deleted(fleet: FleetHarness) -> None:
    name = fleet.name()
    key = ObjectKey.cluster(name)
    fleet.start_hub(AUTOMATIC)
    agent = fleet.start_agent(name)
    await fleet.joined(name)
    own = await agent_client(fleet, name)
    with pytest.raises(Invalid):
        await own.update(MANAGED_CLUSTERS, with_immense_lease(await own.get(MANAGED_CLUSTERS, key)))
    definition = ObjectKey.cluster(MANAGED_CLUSTERS.group_resource)
    bounded = await fleet.client.get(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await fleet.client.update(CUSTOM_RESOURCE_DEFINITIONS, without_bounds(bounded))
    await own.update(MANAGED_CLUSTERS, with_immense_lease(await own.get(MANAGED_CLUSTERS, key)))
    await establish_crds(fleet.client, HUB_CRDS, manager="test")  # it was stored before there was a bound

    await fleet.accept(name, accepted=False)

    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "HubClusterAdminDenied")
    for binding in (registration_binding(name), work_binding(name)):
        await eventually(fleet.client, ROLE_BINDINGS, ObjectKey(name, binding), is_gone)
    await fleet.stop(agent)
    await fleet.remove(name)
    await eventually(fleet.client, NAMESPACES, key, is_gone)


def with_immense_lease(cluster: Object) -> Object:
    return {**cluster, "spec": {**cluster["spec"], "leaseDurationSeconds": 10**15}}


def without_bounds(definition: Object) -> Object:
    changed = copy_json(definition)
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["leaseDurationSeconds"]["maximum"]
    return cast("Object", changed)


async def test_a_deleted_cluster_leaves_nothing_behind(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    agent = fleet.start_agent(name)
    await fleet.joined(name)
    await fleet.stop(agent)

    await fleet.remove(name)

    await eventually(fleet.client, NAMESPACES, ObjectKey.cluster(name), is_gone)
    for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
        assert not (await fleet.client.list(resource, labels=f"{Label.CLUSTER_NAME}={name}")).items
    leases = (await fleet.client.list(LEASES, labels=f"{Label.CLUSTER_NAME}={name}")).items
    assert [ObjectKey.of(lease) for lease in leases] == [retired_name_key(name)]  # while its certificate is valid


async def test_a_joining_cluster_cannot_accept_itself(fleet: FleetHarness) -> None:
    name = fleet.name()
    joining = Client(PlaneConnector(fleet.plane).joining())

    manifest = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={"hubAcceptsClient": True})

    with pytest.raises(Forbidden, match=r"(?i)hubacceptsclient"):
        await joining.create(MANAGED_CLUSTERS, manifest)

    assert await fleet.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is None


async def test_a_second_cluster_of_the_same_name_gets_nothing(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    first = await held_by(fleet, name)

    joining = Client(PlaneConnector(fleet.plane).joining())
    assert BOOTSTRAP_USER in AUTOMATIC.values()
    other = await request_with_another_key(joining, name)
    await asyncio.sleep(3)  # longer than any approval takes; nothing is there to wait for

    request = await fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(other))
    assert not (request.get("status") or {}).get("conditions")
    assert await held_by(fleet, name) == first


async def request_with_another_key(joining: Client, name: str, *, agent: str = "intruder") -> str:
    from watchword.credentials.certificates.agent import request_manifest  # noqa: PLC0415 - the requester's own tool

    groups = (f"system:open-cluster-management:{name}", "system:open-cluster-management:managed-clusters")
    wanted = WantedCredential(name, CredentialSubject(f"system:open-cluster-management:{name}:{agent}", groups))
    created = await joining.create(CERTIFICATE_SIGNING_REQUESTS, request_manifest(wanted, PrivateKey.generate()))
    return str(created["metadata"]["name"])


async def test_an_agent_without_a_bootstrap_credential_waits_for_one(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    connector = PlaneConnector(fleet.plane, may_join=False)
    fleet.start_agent(name, connector=connector)
    await asyncio.sleep(1)
    assert await fleet.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is None

    connector.may_join = True

    await fleet.joined(name)


@pytest.mark.planes("embedded")
async def test_a_certificate_is_renewed_in_time_again_and_again(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name, settings=lifetime_settings(certificate=timedelta(hours=1)))
    await fleet.joined(name)
    seen: dict[int, timedelta] = {}

    for _ in range(36):
        await asyncio.sleep(600)
        current = await certificate_of(fleet, name)
        seen.setdefault(current.serial, current.not_after - fleet.plane.clock.now())

    assert len(seen) >= 7
    assert all(left > timedelta(minutes=5) for left in seen.values())


@pytest.mark.planes("embedded")
async def test_a_silent_agent_is_noticed_and_welcomed_back(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    agent = fleet.start_agent(name)
    await fleet.condition(name, ConditionType.AVAILABLE, "True")

    await fleet.stop(agent)
    await asyncio.sleep(6 * 60)
    silent = await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert [t["key"] for t in silent["spec"]["taints"]] == ["cluster.open-cluster-management.io/unreachable"]

    fleet.start_agent(name)
    await fleet.condition(name, ConditionType.AVAILABLE, "True")
    await eventually(
        fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), lambda o: not (o or {})["spec"].get("taints")
    )
