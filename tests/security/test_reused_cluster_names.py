"""A name that a deleted cluster had: its certificates live on, and open nothing of the cluster that has it now."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, PlaneConnector
from tests.helpers.server_decision import until_allowed, until_refused
from tests.registration.test_join import request_with_another_key
from tests.security.compromised_agent import taken_over

from watchword.addons.definition import AddonDefinition, Grant
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import Annotation, ConditionType, cluster_group
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    ROLE_BINDINGS,
    SECRETS,
)
from watchword.credentials.certificates.requests import APPROVED, is_approved, with_decision
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.kube.tokens import request_token
from watchword.pki.certificates import parse_certificate
from watchword.testing.builders import an_addon
from watchword.testing.eventually import ObjectsByKey, eventually, eventually_all

READY = ConditionType.TOKEN_INFRASTRUCTURE_READY


async def deleted(fleet: FleetHarness) -> tuple[str, Client]:
    """Return the name of a former member, and the credential that its agent still holds."""
    name = fleet.name()
    agent = fleet.start_agent(name)
    await fleet.joined(name)
    await fleet.stop(agent)
    holder = await taken_over(fleet, name)
    await fleet.remove(name)
    return name, holder


async def newcomer(fleet: FleetHarness, name: str) -> None:
    """Let another cluster join under the name: with nothing of what the first one had."""
    await fleet.client.delete(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"))
    fleet.start_agent(name)
    await fleet.joined(name)


async def test_certificate_of_a_deleted_cluster_opens_nothing_of_its_successor(fleet: FleetHarness) -> None:
    fleet.start_hub(AUTOMATIC)
    name, earlier = await deleted(fleet)
    await newcomer(fleet, name)

    for attempt in (
        earlier.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)),
        earlier.list(MANIFEST_WORKS, namespace=name),
        earlier.patch(LEASES, ObjectKey(name, "managed-cluster-lease"), {"spec": {"holderIdentity": "x"}}),
    ):
        with pytest.raises(Forbidden):
            await attempt

    said = find_condition(
        await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)), "HubAcceptedManagedCluster"
    )
    assert said is not None
    assert "earlier cluster" in said.message


async def test_agent_that_is_let_in_later_locks_out_who_went_on(fleet: FleetHarness) -> None:
    fleet.start_hub()
    name = fleet.name()
    agent = fleet.start_agent(name)
    await approve_and_accept(fleet, name)
    await fleet.joined(name)
    await fleet.stop(agent)
    earlier = await taken_over(fleet, name)
    await fleet.remove(name)
    await fleet.client.create(
        MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={"hubAcceptsClient": True})
    )
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "True")
    # Its record was made again, and there is no other request.
    await until_allowed(lambda: earlier.list(MANIFEST_WORKS, namespace=name))
    await fleet.client.delete(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"))

    fleet.start_agent(name)
    await approve_and_accept(fleet, name)

    await fleet.joined(name)
    await until_refused(lambda: earlier.list(MANIFEST_WORKS, namespace=name))


async def approve_and_accept(fleet: FleetHarness, name: str) -> None:
    """Approve the first request for the name, with nothing but what kubectl does."""

    def pending(found: ObjectsByKey) -> list[Object]:
        return [
            csr for csr in found.values() if csr["metadata"]["name"].startswith(f"{name}-") and not is_approved(csr)
        ]

    found = await eventually_all(fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda state: bool(pending(state)))
    (csr,) = pending(found)
    approval = with_decision(csr, APPROVED, "KubectlApprove", "by hand", now=fleet.plane.clock.now())
    await fleet.client.update(CERTIFICATE_SIGNING_REQUESTS, approval, subresource="approval")
    await fleet.accept(name)


async def test_approval_of_an_earlier_cluster_accepts_no_later_one(fleet: FleetHarness) -> None:
    fleet.start_hub(AUTOMATIC)
    name, _ = await deleted(fleet)
    newcomer = Client(PlaneConnector(fleet.plane).joining())

    await newcomer.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={}))

    other = fleet.name()
    fleet.start_agent(other)
    await fleet.joined(other)
    found = await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert not found["spec"].get("hubAcceptsClient")
    assert Annotation.AUTO_ACCEPTED_ON not in annotations_of(found)


async def test_key_of_an_earlier_cluster_does_not_keep_the_name(fleet: FleetHarness) -> None:
    fleet.start_hub(AUTOMATIC)
    name, _ = await deleted(fleet)
    joining = Client(PlaneConnector(fleet.plane).joining())
    await joining.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={}))

    request = ObjectKey.cluster(await request_with_another_key(joining, name))

    await eventually(fleet.client, CERTIFICATE_SIGNING_REQUESTS, request, lambda csr: is_approved(csr or {}))


async def test_tokens_of_addons_are_for_the_successor_alone(addons: AddonFleet) -> None:
    fleet, name = addons.members, await addons.cluster()
    await addons.stop_agent(name)
    earlier = await taken_over(fleet, name)
    await fleet.remove(name)
    await fleet.client.delete(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"))
    await addons.start_agent(name)
    await fleet.joined(name)
    await addons.says(await addons.enable("reporter", name), READY)

    binding = await fleet.client.get(ROLE_BINDINGS, ObjectKey(name, "reporter-token-role"))
    assert cluster_group(name) not in {row["name"] for row in binding["subjects"]}
    with pytest.raises(Forbidden):
        await request_token(earlier, ObjectKey(name, f"{name}-reporter-agent"), expiration_seconds=3600)


async def test_certificate_of_an_addon_ends_with_its_cluster(addons: AddonFleet) -> None:
    reads = Grant("reads", rules=({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},))
    addons.start_addon(AddonDefinition("reporter", grants=(reads,), install_namespace=addons.namespace))
    name = await addons.cluster(auth="csr")
    earlier = await addon_by_certificate(addons, name)
    await until_allowed(lambda: earlier.list(CONFIG_MAPS, namespace=name))
    await addons.stop_agent(name)
    await addons.members.remove(name)
    for secret in (ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"), addons.secret_key(ObjectKey(name, "reporter"))):
        await addons.client.delete(SECRETS, secret)

    await addons.start_agent(name, auth="csr")
    await addons.members.joined(name)
    successor = await addon_by_certificate(addons, name)

    await until_allowed(lambda: successor.list(CONFIG_MAPS, namespace=name))
    with pytest.raises(Forbidden):
        await earlier.list(CONFIG_MAPS, namespace=name)


async def addon_by_certificate(addons: AddonFleet, cluster: str) -> Client:
    """Enable the add-on, and return a client with the certificate that its rights are bound to."""
    key = ObjectKey.of(await addons.client.create(MANAGED_CLUSTER_ADDONS, an_addon("reporter", cluster=cluster)))
    await addons.says(key, ConditionType.REGISTRATION_APPLIED, reason="SetPermissionApplied")
    binding = await addons.client.get(ROLE_BINDINGS, ObjectKey(cluster, "open-cluster-management:reporter:reads:agent"))
    (subject,) = binding["subjects"]

    def is_of_subject(data: dict[str, bytes]) -> bool:
        certificate = parse_certificate(data["tls.crt"]) if data.get("tls.crt") else None
        return certificate is not None and subject["name"] in (certificate.common_name, *certificate.organisations)

    return addons.as_certificate(await addons.secret(key, is_of_subject))
