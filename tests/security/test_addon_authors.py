"""What the author of an add-on tries by its description, and does not get."""

from __future__ import annotations

import pytest
from tests.addons.fleet import KUBE_CLIENT, AddonFleet

from watchword.addons.definition import AddonDefinition, Signer
from watchword.api.addon import AddonSubject
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.drivers.csr.agent import request_manifest
from watchword.drivers.interface import Subject, Wanted
from watchword.pki.keys import PrivateKey
from watchword.testing.waiting import eventually

OWN = "example.com/own"


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
