"""Klusterlet and ClusterManager are rendered as flags, pods and rights."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_MANAGERS, CRON_JOBS, DEPLOYMENTS, KLUSTERLETS
from watchword.operator.cluster_manager import hub_flags, hub_manifests, validate_cluster_manager
from watchword.operator.klusterlet import agent_flags, agent_manifests, validate_klusterlet


def a_klusterlet(name: str = "klusterlet", **spec: Any) -> Object:
    return KLUSTERLETS.manifest(ObjectKey.cluster(name), spec={"clusterName": "edge", **spec})


def a_manager(**spec: Any) -> Object:
    return CLUSTER_MANAGERS.manifest(ObjectKey.cluster("cluster-manager"), spec=spec)


@pytest.mark.parametrize(
    ("registration", "flags"),
    [
        pytest.param({}, [], id="nothing said, nothing rendered"),
        pytest.param({"registrationDriver": {"authType": "csr"}}, ["--registration-auth=csr"], id="driver"),
        pytest.param(
            {"addOnKubeClientRegistrationDriver": {"authType": "token", "token": {"expirationSeconds": 7200}}},
            ["--addon-kubeclient-registration-auth=token", "--addon-token-expiration-seconds=7200"],
            id="add-ons by token",
        ),
        pytest.param(
            {"addOnKubeClientRegistrationDriver": {"authType": "token", "token": {"expirationSeconds": 0}}},
            ["--addon-kubeclient-registration-auth=token"],
            id="no life asked",
        ),
        pytest.param({"addOnKubeClientRegistrationDriver": {}}, [], id="no add-on driver: csr by default"),
        pytest.param({"clientCertExpirationSeconds": 3600}, ["--client-cert-expiration-seconds=3600"], id="life"),
        pytest.param({"clusterLabels": {"b": "2", "a": "1"}}, ["--cluster-labels=a=1,b=2"], id="labels"),
        pytest.param(
            {"featureGates": [{"feature": "ClusterClaim", "mode": "Disable"}, {"feature": "Nonsense"}]},
            ["--feature-gates=ClusterClaim=false"],
            id="known switches alone",
        ),
        pytest.param(
            {"clusterClaimConfiguration": {"maxCustomClusterClaims": 3, "reservedClusterClaimSuffixes": ["a.io"]}},
            ["--max-custom-cluster-claims=3", "--reserved-cluster-claim-suffixes=a.io"],
            id="claims",
        ),
    ],
)
def test_agent_flags(registration: Object, flags: list[str]) -> None:
    always = set(agent_flags(a_klusterlet()))

    rendered = agent_flags(a_klusterlet(registrationConfiguration=registration))

    assert [flag for flag in rendered if flag not in always] == flags


@pytest.mark.parametrize(
    ("registration", "flags"),
    [
        pytest.param({}, [], id="nothing said"),
        pytest.param(
            {"autoApproveUsers": ["a", "b"]}, ["--auto-approved-csr-users=a", "--auto-approved-csr-users=b"], id="users"
        ),
        pytest.param(
            {"registrationDrivers": [{"authType": "csr", "csr": {"autoApprovedIdentities": ["c"]}}]},
            ["--enabled-registration-drivers=csr", "--auto-approved-csr-users=c"],
            id="drivers",
        ),
        pytest.param(
            {"featureGates": [{"feature": "ManagedClusterAutoApproval", "mode": "Enable"}]},
            ["--feature-gates=ManagedClusterAutoApproval=true"],
            id="switches",
        ),
    ],
)
def test_hub_flags(registration: Object, flags: list[str]) -> None:
    assert hub_flags(a_manager(registrationConfiguration=registration))[1:] == flags


@pytest.mark.parametrize(
    ("spec", "reason", "named"),
    [
        pytest.param({"clusterName": "Edge"}, "InvalidClusterName", "DNS label", id="name"),
        pytest.param({"clusterName": "kube-system"}, "InvalidClusterName", "the hub itself", id="reserved name"),
        pytest.param({"deployOption": {"mode": "Hosted"}}, "UnsupportedDeployOption", "Singleton", id="hosted"),
        pytest.param(
            {"registrationConfiguration": {"registrationDriver": {"authType": "magic"}}},
            "UnknownRegistrationDriver",
            "'magic' by which clusters register: choose one of",
            id="driver",
        ),
        pytest.param(
            {"registrationConfiguration": {"registrationDriver": {"authType": "token"}}},
            "UnknownRegistrationDriver",
            "csr",
            id="a driver of add-ons alone",
        ),
        pytest.param(
            {"registrationConfiguration": {"addOnKubeClientRegistrationDriver": {"authType": "oidc"}}},
            "UnknownAddOnDriver",
            "csr, token",
            id="add-on driver",
        ),
        pytest.param(
            {"registrationConfiguration": {"clientCertExpirationSeconds": 60}},
            "InvalidDriverSettings",
            "at least an hour",
            id="setting that the driver refuses",
        ),
        *(
            pytest.param(
                {"registrationConfiguration": {"addOnKubeClientRegistrationDriver": {"token": token}}},
                "InvalidDriverSettings",
                "a number from 600 to 4294967296",
                id=f"token lifetime of {token['expirationSeconds']}",
            )
            for token in ({"expirationSeconds": 599}, {"expirationSeconds": 99999999999999})
        ),
    ],
)
def test_invalid_klusterlet_is_refused_in_one_sentence(spec: Object, reason: str, named: str) -> None:
    objection = validate_klusterlet(a_klusterlet(**spec))

    assert objection is not None
    assert (objection.reason, named in objection.message) == (reason, True)


def test_unknown_driver_of_a_hub_is_reported_in_one_sentence() -> None:
    manager = a_manager(registrationConfiguration={"registrationDrivers": [{"authType": "magic"}]})

    objection = validate_cluster_manager(manager)

    assert objection is not None
    assert "'magic'" in objection.message
    assert validate_cluster_manager(a_manager()) is None


def test_the_agent_runs_without_privileges() -> None:
    (agent,) = [obj for resource, obj in agent_manifests(a_klusterlet()) if resource is DEPLOYMENTS]
    pod = agent["spec"]["template"]["spec"]

    assert (agent["metadata"]["name"], pod["serviceAccountName"]) == ("klusterlet-agent", "klusterlet-sa")
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_two_klusterlets_share_nothing_but_their_roles() -> None:
    first, second = (
        {(resource.kind, obj["metadata"].get("namespace"), obj["metadata"]["name"]) for resource, obj in rows}
        for rows in (
            agent_manifests(a_klusterlet("one", namespace="open-cluster-management-one")),
            agent_manifests(a_klusterlet("two", namespace="open-cluster-management-two")),
        )
    )

    assert first & second == set()


def test_pods_go_where_the_spec_says() -> None:
    spec: Object = {
        "nodePlacement": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "x", "operator": "Exists"}]},
        "priorityClassName": "high",
        "hubApiServerHostAlias": {"ip": "10.0.0.1", "hostname": "hub.test"},
        "resourceRequirement": {"type": "BestEffort"},
        "imagePullSpec": "registry/watchword:1",
    }
    (agent,) = [obj for resource, obj in agent_manifests(a_klusterlet(**spec)) if resource is DEPLOYMENTS]
    pod = agent["spec"]["template"]["spec"]

    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"a": "b"}, "high")
    assert pod["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["hub.test"]}]
    assert (pod["containers"][0]["image"], "resources" in pod["containers"][0]) == ("registry/watchword:1", False)


def test_the_clean_up_of_clusters_runs_beside_the_hub() -> None:
    (job,) = [obj for resource, obj in hub_manifests(a_manager()) if resource is CRON_JOBS]

    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["containers"][0]["args"]) == ("cluster-cleaner-sa", ["clean-clusters"])


def test_what_was_deployed_can_be_named_after_the_driver_is_unknown() -> None:
    unknown = {"registrationDriver": {"authType": "magic"}}

    assert agent_manifests(a_klusterlet(registrationConfiguration=unknown))
    assert hub_manifests(a_manager(registrationConfiguration={"registrationDrivers": [{"authType": "magic"}]}))
