"""A Klusterlet becomes an agent; errors are reported, and nothing is left behind."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.operator.conftest import Operated

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, Annotation, Finalizer
from watchword.api.resources import (
    APPLIED_MANIFEST_WORKS,
    CLUSTER_ROLE_BINDINGS,
    DEPLOYMENTS,
    KLUSTERLETS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.operator.conditions import decide_hub_connection
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.registration.aws_irsa.agent import TokenSource

AGENT = "klusterlet-agent"
UNKNOWN = {"registrationConfiguration": {"registrationDriver": {"authType": "magic"}}}


def says(type_: str, status: str, reason: str = "") -> Callable[[Object | None], bool]:
    def check(obj: Object | None) -> bool:
        found = find_condition(obj or {}, type_)
        return found is not None and found.status == status and reason in ("", found.reason)

    return check


async def a_joined_klusterlet(operated: Operated, **spec: object) -> Object:
    await operated.has(KLUSTERLETS, "klusterlet", spec={"clusterName": "edge", **spec})
    return await operated.until(KLUSTERLETS, "klusterlet", says("Applied", "True"))


async def test_a_klusterlet_becomes_an_agent_with_its_rights(operated: Operated) -> None:
    klusterlet = await a_joined_klusterlet(operated)

    agent = await operated.admin.get(DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, AGENT))
    assert "--spoke-cluster-name=edge" in agent["spec"]["template"]["spec"]["containers"][0]["args"]
    assert Finalizer.KLUSTERLET in klusterlet["metadata"]["finalizers"]
    assert klusterlet["status"]["observedGeneration"] == klusterlet["metadata"]["generation"]
    (generation,) = klusterlet["status"]["generations"]
    assert (generation["resource"], generation["name"]) == ("deployments", AGENT)
    assert {"serviceaccounts", "rolebindings", "clusterrolebindings"} <= {
        row["resource"] for row in klusterlet["status"]["relatedResources"]
    }
    assert says("HubConnectionDegraded", "True", "BootstrapSecretMissing")(klusterlet)
    assert says("RegistrationDesiredDegraded", "True", "UnavailablePods")(klusterlet)


async def test_conditions_follow_the_deployment_and_the_secrets(operated: Operated) -> None:
    await a_joined_klusterlet(operated)
    data = {"kubeconfig": base64.b64encode(b"{}").decode()}
    await operated.has(SECRETS, "bootstrap-hub-kubeconfig", AGENT_NAMESPACE, data=data)
    await operated.until(KLUSTERLETS, "klusterlet", says("HubConnectionDegraded", "True", "HubKubeConfigSecretMissing"))

    await operated.has(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE, data={**data, "cluster-name": "ZWRnZQ=="})
    await operated.until(KLUSTERLETS, "klusterlet", says("HubConnectionDegraded", "False", "HubConnectionFunctional"))
    agent = await operated.admin.get(DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, AGENT))
    status = {"observedGeneration": agent["metadata"]["generation"], "replicas": 1, "readyReplicas": 1}
    status["availableReplicas"] = 1
    await operated.admin.patch(DEPLOYMENTS, ObjectKey.of(agent), {"status": status}, subresource="status")

    found = await operated.until(KLUSTERLETS, "klusterlet", says("Available", "True"))
    assert says("RegistrationDesiredDegraded", "False", "DeploymentsFunctional")(found)


async def test_an_unknown_driver_is_a_condition_and_leaves_the_agent_alone(operated: Operated) -> None:
    await a_joined_klusterlet(operated)
    before = await operated.admin.get(DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, AGENT))

    await operated.admin.patch(KLUSTERLETS, ObjectKey.cluster("klusterlet"), {"spec": UNKNOWN})

    found = await operated.until(KLUSTERLETS, "klusterlet", says("Applied", "False", "UnknownRegistrationDriver"))
    condition = find_condition(found, "Applied")
    assert condition is not None
    assert "choose one of aws-irsa, csr" in condition.message
    after = await operated.admin.get(DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, AGENT))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_agent_that_ocms_operator_deployed_is_replaced(operated: Operated) -> None:
    labels = {"app": "klusterlet-agent"}
    container = {
        "name": "klusterlet-agent",
        "image": "quay.io/ocm/agent:1",
        "args": ["/registration-operator", "agent"],
    }
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    await operated.has(
        DEPLOYMENTS, "edge-agent", AGENT_NAMESPACE, spec={"selector": {"matchLabels": labels}, "template": pod}
    )

    await operated.has(KLUSTERLETS, "edge", spec={"clusterName": "edge"})
    await operated.until(KLUSTERLETS, "edge", says("Applied", "True"))

    agent = await operated.admin.get(DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, "edge-agent"))
    (found,) = agent["spec"]["template"]["spec"]["containers"]
    assert agent["spec"]["selector"]["matchLabels"] == {"app": "edge-agent"}
    assert "--spoke-cluster-name=edge" in found["args"]


async def test_unknown_feature_gates_are_reported_and_not_passed_on(operated: Operated) -> None:
    gates = [{"feature": "Nonsense", "mode": "Enable"}, {"feature": "ClusterClaim", "mode": "Enable"}]
    await a_joined_klusterlet(operated, registrationConfiguration={"featureGates": gates})

    found = await operated.until(KLUSTERLETS, "klusterlet", says("ValidFeatureGates", "False"))

    condition = find_condition(found, "ValidFeatureGates")
    assert condition is not None
    assert "Nonsense" in condition.message


async def test_what_others_change_or_delete_comes_back(operated: Operated) -> None:
    await a_joined_klusterlet(operated)
    key = ObjectKey(AGENT_NAMESPACE, AGENT)

    await operated.admin.patch(DEPLOYMENTS, key, {"spec": {"replicas": 5}})
    await operated.until(DEPLOYMENTS, AGENT, lambda d: (d or {})["spec"]["replicas"] == 1, AGENT_NAMESPACE)
    await operated.admin.delete(SERVICE_ACCOUNTS, ObjectKey(AGENT_NAMESPACE, "klusterlet-sa"))

    await operated.until(SERVICE_ACCOUNTS, "klusterlet-sa", lambda found: found is not None, AGENT_NAMESPACE)


async def test_new_or_changed_bootstrap_secret_restarts_the_agent(operated: Operated) -> None:
    await a_joined_klusterlet(operated)
    key = ObjectKey(AGENT_NAMESPACE, "bootstrap-hub-kubeconfig")
    seen: set[str] = set()

    def has_another_mark(agent: Object | None) -> bool:
        marks = ((agent or {})["spec"]["template"]["metadata"].get("annotations") or {}).values()
        return bool(marks) and not seen.issuperset(marks)

    await operated.has(SECRETS, key.name, key.namespace, data={"kubeconfig": "b25l"})
    first = await operated.until(DEPLOYMENTS, AGENT, has_another_mark, AGENT_NAMESPACE)
    seen.update(first["spec"]["template"]["metadata"]["annotations"].values())
    await operated.admin.patch(SECRETS, key, {"data": {"kubeconfig": "dHdv"}})

    await operated.until(DEPLOYMENTS, AGENT, has_another_mark, AGENT_NAMESPACE)


async def test_foreign_deployment_is_left_alone(operated: Operated) -> None:
    container = {"name": "theirs", "image": "theirs"}
    template = {"metadata": {"labels": {"app": "theirs"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "theirs"}}, "template": template}
    await operated.has(DEPLOYMENTS, AGENT, AGENT_NAMESPACE, spec=spec)
    await operated.has(KLUSTERLETS, "klusterlet", spec={"clusterName": "edge"})

    found = await operated.until(KLUSTERLETS, "klusterlet", says("Applied", "False", "KlusterletApplyFailed"))

    condition = find_condition(found, "Applied")
    assert condition is not None
    assert "is not the operator's" in condition.message
    assert (await operated.admin.get(DEPLOYMENTS, ObjectKey(AGENT_NAMESPACE, AGENT)))["spec"]["replicas"] == 3


async def test_a_namespace_without_rights_is_a_condition_that_names_it(operated: Operated) -> None:
    spec = {"clusterName": "edge", "namespace": "open-cluster-management-elsewhere"}
    await operated.has(KLUSTERLETS, "klusterlet", spec=spec)

    found = await operated.until(KLUSTERLETS, "klusterlet", says("Applied", "False", "KlusterletApplyFailed"))

    condition = find_condition(found, "Applied")
    assert condition is not None
    assert "open-cluster-management-elsewhere" in condition.message


async def test_a_deleted_klusterlet_leaves_nothing(operated: Operated) -> None:
    await a_joined_klusterlet(operated)
    data = {"kubeconfig": base64.b64encode(b"{}").decode()}
    await operated.has(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE, data=data)
    spec = {"hubHash": "abc", "agentID": "x", "manifestWorkName": "work"}
    metadata = {"finalizers": [Finalizer.APPLIED_WORK]}
    await operated.has(APPLIED_MANIFEST_WORKS, "abc-work", metadata=metadata, spec=spec)

    await operated.admin.delete(KLUSTERLETS, ObjectKey.cluster("klusterlet"))
    await operated.until(KLUSTERLETS, "klusterlet", lambda found: found is None)

    assert await operated.find(DEPLOYMENTS, AGENT, AGENT_NAMESPACE) is None
    assert await operated.find(SERVICE_ACCOUNTS, "klusterlet-sa", AGENT_NAMESPACE) is None
    assert await operated.find(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE) is None
    assert await operated.find(APPLIED_MANIFEST_WORKS, "abc-work") is None
    for resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
        names = [obj["metadata"]["name"] for obj in (await operated.admin.list(resource)).items]
        assert [name for name in names if "operated:klusterlet" in name] == []


NOW = datetime.fromisoformat("2030-01-01T00:00:00+00:00")


def a_certificate(life: timedelta) -> str:
    authority = Authority.make("hub", now=NOW - timedelta(days=2))
    key = PrivateKey.generate().public
    issued = authority.issue_client(key, CertificateSubject("edge"), now=NOW - timedelta(days=1), lifetime=life)
    return base64.b64encode(issued.pem).decode()


@pytest.mark.parametrize(
    ("life", "reason"),
    [
        pytest.param(timedelta(days=2), "HubConnectionFunctional", id="valid"),
        pytest.param(timedelta(hours=1), "HubKubeConfigUnauthorized", id="expired"),
    ],
)
def test_decide_hub_connection_by_certificate(life: timedelta, reason: str) -> None:
    data = {"kubeconfig": SET, "cluster-name": SET, "tls.crt": a_certificate(life)}

    assert decide_hub_connection(None, {"data": data}, now=NOW).reason == reason


SET = base64.b64encode(b"x").decode()


def a_kubeconfig(user: UserEntry) -> str:
    kubeconfig = Kubeconfig(
        clusters={"hub": ClusterEntry("https://hub:6443")},
        users={"agent": user},
        contexts={"hub": ContextEntry("hub", "agent")},
        current_context="hub",
    )
    return base64.b64encode(dump_kubeconfig(kubeconfig)).decode()


BY_CERTIFICATE = a_kubeconfig(UserEntry(certificate_file=Path("tls.crt"), key_file=Path("tls.key")))
BY_ROLE = a_kubeconfig(UserEntry(plugin=TokenSource("eu-west-1", "hub", "role").exec_entry()))


@pytest.mark.parametrize(
    ("note", "reason"),
    [(Annotation.HUB_UNREACHABLE, "HubUnreachable"), (Annotation.NOT_REGISTERED, "HubRegistrationRefused")],
)
def test_decide_hub_connection_by_what_the_agent_notes(note: str, reason: str) -> None:
    hub = {"metadata": {"annotations": {note: "hub:443 cannot be reached"}}, "data": {"kubeconfig": SET}}

    condition = decide_hub_connection({"data": {"kubeconfig": SET}}, hub, now=NOW)

    assert (condition.status, condition.reason) == ("True", reason)
    assert "hub:443 cannot be reached" in condition.message


@pytest.mark.parametrize(
    ("bootstrap", "hub", "reason"),
    [
        pytest.param(None, None, "BootstrapSecretMissing", id="nothing"),
        pytest.param({}, None, "BootstrapSecretMissing", id="an empty bootstrap Secret"),
        pytest.param({"kubeconfig": SET}, None, "HubKubeConfigSecretMissing", id="not joined"),
        pytest.param({"kubeconfig": SET}, {"agent-name": SET}, "HubKubeConfigMissing", id="half joined"),
        pytest.param(None, {"kubeconfig": SET}, "ClusterNameMissing", id="nameless"),
        pytest.param(
            None, {"kubeconfig": SET, "cluster-name": SET, "tls.crt": SET}, "HubKubeConfigError", id="unreadable"
        ),
        pytest.param(None, {"kubeconfig": SET, "cluster-name": SET}, "HubConnectionFunctional", id="by token"),
        pytest.param(
            None,
            {"kubeconfig": BY_CERTIFICATE, "cluster-name": SET},
            "HubKubeConfigMissing",
            id="asked and not answered",
        ),
        pytest.param(
            None,
            {"kubeconfig": BY_ROLE, "cluster-name": SET, "tls.crt": SET},
            "HubConnectionFunctional",
            id="by role, beside a certificate that is not used",
        ),
    ],
)
def test_decide_hub_connection(bootstrap: Object | None, hub: Object | None, reason: str) -> None:
    first, second = ({"data": data} if data is not None else None for data in (bootstrap, hub))

    condition = decide_hub_connection(first, second, now=NOW)

    assert (condition.reason, condition.status == "False") == (reason, reason == "HubConnectionFunctional")
