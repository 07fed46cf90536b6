"""What the author of an add-on tries by its description, and does not get."""

from __future__ import annotations

import pytest
from tests.addons.fleet import KUBE_CLIENT, AddonFleet

from watchword.addons.definition import AddonDefinition, Grant, Signer
from watchword.api.addon import AddonSubject
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_ROLES, ROLE_BINDINGS
from watchword.drivers.csr.agent import request_manifest
from watchword.drivers.interface import Subject, Wanted
from watchword.pki.keys import PrivateKey
from watchword.testing.waiting import eventually

OWN = "example.com/own"
APPLIED = ConditionType.REGISTRATION_APPLIED


def described(namespace: str, signer: str) -> AddonDefinition:
    node = AddonSubject("system:node:n1", ("system:nodes",))
    signers = (Signer(OWN, subject=lambda _: node), Signer(signer, subject=lambda _: node))
    return AddonDefinition("reporter", signers=signers, install_namespace=namespace)


async def ask(addons: AddonFleet, cluster: str, signer: str) -> ObjectKey:
    agent = addons.plane.client(
        f"system:open-cluster-management:{cluster}:x", [f"system:open-cluster-management:{cluster}"]
    )
    wanted = Wanted(cluster, Subject("system:node:n1", ("system:nodes",)), addon="reporter", signer=signer)
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


async def test_role_that_is_not_there_yet_is_judged_before_it_is_granted(addons: AddonFleet) -> None:
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


def message(addon: Object | None) -> str:
    said = find_condition(addon or {}, APPLIED)
    return "" if said is None else said.message
