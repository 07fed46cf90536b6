"""What a cluster is told about registration by IAM, and what becomes of it."""

from __future__ import annotations

import pytest

from watchword.admin.join import ClusterMembership, klusterlet_manifest, validate_membership
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.operator.cluster_manager import hub_manifests
from watchword.operator.klusterlet import agent_account, agent_flags, agent_manifests
from watchword.processes.agent import validate_agent_options
from watchword.registration.agent.options import AgentOptions
from watchword.registration.aws_irsa.driver import AwsIrsaDriver
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN, MANAGED_CLUSTER_ARN
from watchword.registration.catalog import CATALOG

HUB = "arn:aws:eks:us-west-2:111122223333:cluster/fleet-hub"
EDGE = "arn:aws:eks:eu-central-1:444455556666:cluster/edge"
SETTINGS = {HUB_CLUSTER_ARN.flag: HUB, MANAGED_CLUSTER_ARN.flag: EDGE}


@pytest.mark.parametrize(
    ("settings", "objection"),
    [
        pytest.param({MANAGED_CLUSTER_ARN.flag: EDGE}, "--eks-hub-cluster-arn is missing", id="no hub"),
        pytest.param({HUB_CLUSTER_ARN.flag: HUB}, "--managed-cluster-arn is missing", id="no cluster"),
        pytest.param({**SETTINGS, HUB_CLUSTER_ARN.flag: "fleet-hub"}, "is not the ARN of an EKS cluster", id="a name"),
        pytest.param(
            {**SETTINGS, HUB_CLUSTER_ARN.flag: f"{HUB}#x"}, "is not the ARN of an EKS cluster", id="delimiter"
        ),
        pytest.param(
            {**SETTINGS, MANAGED_CLUSTER_ARN.flag: "arn:aws-cn:eks:cn-north-1:444455556666:cluster/edge"},
            "roles cannot be assumed across the partitions",
            id="another partition",
        ),
    ],
)
def test_agent_and_join_refuse_settings_with_which_no_role_can_be_found(
    settings: dict[str, str], objection: str
) -> None:
    options = AgentOptions("edge", registration_auth="aws-irsa", settings=settings)
    membership = ClusterMembership("edge", registration_auth="aws-irsa", settings=settings)

    assert [objection in text for text in validate_agent_options(options, CATALOG)] == [True]
    assert [objection in text for text in validate_membership(membership)] == [True]


@pytest.mark.parametrize("name", ["aws-irsa", "awsirsa"])
def test_settings_travel_from_join_through_the_klusterlet_to_the_agent(name: str) -> None:
    klusterlet = klusterlet_manifest(ClusterMembership("edge", registration_auth=name, settings=SETTINGS))

    driver = klusterlet["spec"]["registrationConfiguration"]["registrationDriver"]
    assert driver == {"authType": "aws-irsa", "awsIrsa": {"hubClusterArn": HUB, "managedClusterArn": EDGE}}
    flags = set(agent_flags(klusterlet))
    assert {f"--eks-hub-cluster-arn={HUB}", f"--managed-cluster-arn={EDGE}", "--registration-auth=aws-irsa"} <= flags


def test_operator_gives_the_agent_the_account_and_role_that_the_trust_policy_names() -> None:
    klusterlet = klusterlet_manifest(ClusterMembership("edge", registration_auth="aws-irsa", settings=SETTINGS))

    (account,) = [obj for resource, obj in agent_manifests(klusterlet) if resource is SERVICE_ACCOUNTS]

    assert account["metadata"]["name"] == agent_account(klusterlet)[0].name == "klusterlet-registration-sa"
    role = account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
    assert role.startswith("arn:aws:iam::444455556666:role/ocm-managed-cluster-")


def test_account_of_an_agent_that_registers_otherwise_has_no_role() -> None:
    klusterlet = klusterlet_manifest(ClusterMembership("edge"))

    (account,) = [obj for resource, obj in agent_manifests(klusterlet) if resource is SERVICE_ACCOUNTS]

    assert (account["metadata"]["name"], "annotations" in account["metadata"]) == ("klusterlet-sa", False)


def test_operator_gives_the_hub_the_role_of_the_identity_creator() -> None:
    entry = {"authType": "aws-irsa", "awsirsa": {"hubClusterArn": HUB}}
    manager = {
        "metadata": {"name": "cluster-manager"},
        "spec": {"registrationConfiguration": {"registrationDrivers": [entry]}},
    }

    accounts = {
        obj["metadata"]["name"]: obj for resource, obj in hub_manifests(manager) if resource is SERVICE_ACCOUNTS
    }

    role = "arn:aws:iam::111122223333:role/fleet-hub_managed-cluster-identity-creator"
    assert accounts["registration-controller-sa"]["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": role}
    assert "annotations" not in accounts["cluster-cleaner-sa"]["metadata"]


def test_cluster_names_itself_in_both_spellings() -> None:
    annotations = AwsIrsaDriver().annotate(SETTINGS)

    assert annotations["eks-managed-cluster-arn"] == EDGE
    assert annotations["agent.open-cluster-management.io/managed-cluster-arn"] == EDGE
    assert len(annotations["agent.open-cluster-management.io/managed-cluster-iam-role-suffix"]) == 32
    cluster = {"metadata": {"name": "edge", "annotations": annotations}}
    assert CATALOG.driver_of(cluster).name == "aws-irsa"
