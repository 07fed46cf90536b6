"""What the author of an add-on tries by its description, and does not get."""

from __future__ import annotations

import pytest
from tests.addons.fleet import KUBE_CLIENT, AddonFleet
from tests.helpers.events import is_told

from watchword.addons.definition import AddonDefinition, Grant, Signer
from watchword.api.addon import AddonSubject
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE, Annotation, ConditionType, Label
from watchword.api.resources import (
    ADDON_TEMPLATES,
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGEMENT_ADDONS,
    CLUSTER_ROLES,
    MANAGED_CLUSTER_ADDONS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
)
from watchword.credentials.certificates.agent import request_manifest
from watchword.credentials.driver import CredentialSubject, WantedCredential
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.testing.builders import a_secret
from watchword.testing.eventually import eventually, is_gone

OWN, OTHER = "example.com/own", "example.com/other"
READS_CONFIG_MAPS: Object = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
READS_SECRETS: Object = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}
PUMP = AddonSubject("pump", ("example:pumps",))
GRANT = Grant("stays", rules=(READS_CONFIG_MAPS,))
APPLIED = ConditionType.REGISTRATION_APPLIED


def described(namespace: str, signer: str) -> AddonDefinition:
    signers = (Signer(OWN, subject=lambda _: PUMP), Signer(signer, subject=lambda _: PUMP))
    return AddonDefinition("reporter", signers=signers, install_namespace=namespace)


async def ask(
    addons: AddonFleet, cluster: str, signer: str, addon: str = "reporter", subject: AddonSubject = PUMP
) -> ObjectKey:
    agent = addons.plane.client(
        f"system:open-cluster-management:{cluster}:x", [f"system:open-cluster-management:{cluster}"]
    )
    wanted = WantedCredential(cluster, CredentialSubject(subject.user, subject.groups), addon=addon, signer=signer)
    manifest = request_manifest(wanted, PrivateKey.generate())
    return ObjectKey.of(await agent.create(CERTIFICATE_SIGNING_REQUESTS, manifest))


def approved(csr: Object | None) -> bool:
    return csr is not None and find_condition(csr, "Approved") is not None


@pytest.mark.parametrize(
    "signer",
    [
        pytest.param("kubernetes.io/kube-apiserver-client-kubelet", id="nodes"),
        pytest.param("kubernetes.io/kubelet-serving", id="what nodes serve"),
        pytest.param("evil.k8s.io/anything", id="a domain of Kubernetes"),
        pytest.param("open-cluster-management.io/grpc", id="agents over gRPC"),
        pytest.param("signers.watchword.dev/anything", id="a domain of this project"),
    ],
)
async def test_no_addon_makes_a_node_of_the_hub(addons: AddonFleet, signer: str) -> None:
    cluster = await addons.cluster(auth="csr")
    await addons.stop_agent(cluster)
    addons.start_addon(described(addons.namespace, signer))
    await addons.enable("reporter", cluster, KUBE_CLIENT)

    hostile = await ask(addons, cluster, signer)
    honest = await ask(addons, cluster, OWN)
    await eventually(addons.client, CERTIFICATE_SIGNING_REQUESTS, honest, approved)

    assert not approved(await addons.client.get(CERTIFICATE_SIGNING_REQUESTS, hostile))


async def test_missing_role_is_validated_before_it_is_granted(addons: AddonFleet) -> None:
    cluster, role = await addons.cluster(), f"later{addons.mark}"
    grants = (Grant("later", role=role),)
    addons.start_addon(AddonDefinition("reporter", grants=grants, install_namespace=addons.namespace))
    key = await addons.enable("reporter", cluster)
    await addons.says(key, APPLIED, "False", "PermissionRefused")
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    await addons.client.create(CLUSTER_ROLES, CLUSTER_ROLES.manifest(ObjectKey.cluster(role), rules=rules))

    said = await addons.until(key, lambda obj: "secrets without names" in message(obj), within=90)

    assert message(said)
    binding = ObjectKey(cluster, "open-cluster-management:reporter:later:agent")
    assert await addons.client.find(ROLE_BINDINGS, binding) is None


async def test_role_that_grows_after_it_was_granted_is_taken_back(addons: AddonFleet) -> None:
    cluster, role = await addons.cluster(), ObjectKey.cluster(f"grows{addons.mark}")
    await addons.client.create(CLUSTER_ROLES, CLUSTER_ROLES.manifest(role, rules=[READS_CONFIG_MAPS]))
    grants = (Grant("grows", role=role.name), GRANT)
    addons.start_addon(AddonDefinition("reporter", grants=grants, install_namespace=addons.namespace))
    key = await addons.enable("reporter", cluster)
    await addons.says(key, APPLIED)

    await addons.client.patch(CLUSTER_ROLES, role, {"rules": [READS_CONFIG_MAPS, READS_SECRETS]})

    await eventually(addons.client, ROLE_BINDINGS, bound(cluster, "grows"), is_gone)
    said = await addons.says(key, APPLIED, "False", "PermissionRefused")
    assert "secrets without names" in said.message
    assert await addons.client.find(ROLE_BINDINGS, bound(cluster, "stays")) is not None


async def test_grant_that_is_trusted_no_longer_is_taken_back(addons: AddonFleet) -> None:
    cluster, name = await addons.cluster(), f"trusted{addons.mark}"
    role = ObjectKey.cluster(name)
    await addons.client.create(CLUSTER_ROLES, CLUSTER_ROLES.manifest(role, rules=[READS_SECRETS]))
    permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": name}}
    await describe(addons, name, {"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}, trusted=name)
    key = await addons.enable(name, cluster)
    await addons.says(key, APPLIED)

    no_more: Object = {"metadata": {"annotations": {Annotation.ADDON_TRUSTED_GRANTS: None}}}
    await addons.client.patch(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(name), no_more)

    binding = ObjectKey(cluster, f"open-cluster-management:{name}:{name}:agent")
    await eventually(addons.client, ROLE_BINDINGS, binding, is_gone)


async def describe(addons: AddonFleet, name: str, *registration: Object, trusted: str = "") -> None:
    """Describe an add-on by a template, as an author of templates does."""
    spec = {"addonName": name, "agentSpec": {"workload": {"manifests": []}}, "registration": list(registration)}
    template, kind = ADDON_TEMPLATES.manifest(ObjectKey.cluster(name), spec=spec), ObjectKey.cluster(name)
    await addons.client.create(ADDON_TEMPLATES, template)
    configs = [{"group": ADDON_TEMPLATES.group, "resource": ADDON_TEMPLATES.plural, "name": name}]
    known = CLUSTER_MANAGEMENT_ADDONS.manifest(
        kind, metadata={"annotations": {Annotation.ADDON_TRUSTED_GRANTS: trusted}}, spec={"defaultConfigs": configs}
    )
    await addons.client.create(CLUSTER_MANAGEMENT_ADDONS, known)


async def test_template_signs_with_no_key_that_the_hub_can_read_elsewhere(addons: AddonFleet) -> None:
    cluster, name = await addons.cluster(auth="csr"), f"signs{addons.mark}"
    await addons.stop_agent(cluster)
    for namespace in ("kube-system", HUB_NAMESPACE):
        authority = Authority.make("any", now=addons.plane.clock.now())
        data = {"tls.crt": authority.certificate.pem, "tls.key": authority.key.pem.reveal()}
        labels = {Label.KEY_PURPOSE: "addon-signing"}
        await addons.client.create(SECRETS, a_secret(name, namespace=namespace, data=data, labels=labels))
    pump = {"user": PUMP.user, "groups": list(PUMP.groups)}
    places = {OTHER: {"name": name, "namespace": "kube-system"}, OWN: {"name": name}}
    signers = [{"signerName": signer, "subject": pump, "signingCA": where} for signer, where in places.items()]
    await describe(addons, name, *({"type": "CustomSigner", "customSigner": signer} for signer in signers))
    await addons.enable(name, cluster, KUBE_CLIENT)

    hostile = await ask(addons, cluster, OTHER, addon=name)
    honest = await ask(addons, cluster, OWN, addon=name)
    await eventually(addons.client, CERTIFICATE_SIGNING_REQUESTS, honest, signed)

    assert not approved(await addons.client.get(CERTIFICATE_SIGNING_REQUESTS, hostile))


async def test_template_signs_with_no_key_of_another_purpose(addons: AddonFleet) -> None:
    cluster, name = await addons.cluster(auth="csr"), f"purpose{addons.mark}"
    await addons.stop_agent(cluster)
    for secret, labels in ((f"{name}-grpc", {}), (name, {Label.KEY_PURPOSE: "addon-signing"})):
        authority = Authority.make("any", now=addons.plane.clock.now())
        data = {"tls.crt": authority.certificate.pem, "tls.key": authority.key.pem.reveal()}
        await addons.client.create(SECRETS, a_secret(secret, namespace=HUB_NAMESPACE, data=data, labels=labels))
    pump = {"user": PUMP.user, "groups": list(PUMP.groups)}
    rows = [
        {"signerName": OTHER, "subject": pump, "signingCA": {"name": f"{name}-grpc"}},
        {"signerName": OWN, "subject": pump, "signingCA": {"name": name}},
    ]
    await describe(addons, name, *({"type": "CustomSigner", "customSigner": row} for row in rows))
    await addons.enable(name, cluster, KUBE_CLIENT)

    hostile = await ask(addons, cluster, OTHER, addon=name)
    honest = await ask(addons, cluster, OWN, addon=name)
    await eventually(addons.client, CERTIFICATE_SIGNING_REQUESTS, honest, signed)
    await is_told(addons.client, hostile.name, "SigningAuthorityUnusable")

    assert not signed(await addons.client.get(CERTIFICATE_SIGNING_REQUESTS, hostile))


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(AddonSubject("system:open-cluster-management:victim:agent"), id="agent of another cluster"),
        pytest.param(AddonSubject("pump", ("system:open-cluster-management:victim",)), id="group of a cluster"),
        pytest.param(AddonSubject("System:admin"), id="a user of Kubernetes in capitals"),
        pytest.param(AddonSubject("pump", ("system:masters",)), id="administrators"),
    ],
)
async def test_template_makes_no_part_of_the_system(addons: AddonFleet, subject: AddonSubject) -> None:
    cluster, name = await addons.cluster(auth="csr"), f"subject{addons.mark}"
    await addons.stop_agent(cluster)
    authority = Authority.make("any", now=addons.plane.clock.now())
    data = {"tls.crt": authority.certificate.pem, "tls.key": authority.key.pem.reveal()}
    labels = {Label.KEY_PURPOSE: "addon-signing"}
    await addons.client.create(SECRETS, a_secret(name, namespace=HUB_NAMESPACE, data=data, labels=labels))
    rows = [
        {"signerName": signer, "subject": {"user": who.user, "groups": list(who.groups)}, "signingCA": {"name": name}}
        for signer, who in ((OTHER, subject), (OWN, PUMP))
    ]
    await describe(addons, name, *({"type": "CustomSigner", "customSigner": row} for row in rows))
    await addons.enable(name, cluster, KUBE_CLIENT)

    hostile = await ask(addons, cluster, OTHER, addon=name, subject=subject)
    honest = await ask(addons, cluster, OWN, addon=name)
    await eventually(addons.client, CERTIFICATE_SIGNING_REQUESTS, honest, signed)

    assert not approved(await addons.client.get(CERTIFICATE_SIGNING_REQUESTS, hostile))


def signed(csr: Object | None) -> bool:
    return bool(((csr or {}).get("status") or {}).get("certificate"))


async def test_what_others_made_is_not_deleted_for_its_labels(addons: AddonFleet) -> None:
    cluster = await addons.cluster()
    addons.start_addon(AddonDefinition("reporter", grants=(GRANT,), install_namespace=addons.namespace))
    marks = {Label.ADDON_NAME: "reporter", Label.ADDON_CLUSTER: cluster}
    foreign = ObjectKey(addons.namespace, "payroll")
    for key in (foreign, ObjectKey(cluster, "open-cluster-management:reporter:once:agent")):
        await addons.client.create(ROLES, ROLES.manifest(key, metadata={"labels": marks}, rules=[]))

    key = await addons.enable("reporter", cluster)
    await addons.says(key, APPLIED)
    await addons.client.delete(MANAGED_CLUSTER_ADDONS, key)
    await eventually(addons.client, ROLE_BINDINGS, bound(cluster, "stays"), is_gone)

    assert await addons.client.find(ROLES, foreign) is not None
    assert (
        await addons.client.find(ROLES, ObjectKey(cluster, "open-cluster-management:reporter:once:agent")) is not None
    )


def bound(cluster: str, grant: str) -> ObjectKey:
    return ObjectKey(cluster, f"open-cluster-management:reporter:{grant}:agent")


def message(addon: Object | None) -> str:
    said = find_condition(addon or {}, APPLIED)
    return "" if said is None else said.message
