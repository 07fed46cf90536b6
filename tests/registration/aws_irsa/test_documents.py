"""The IAM documents are those of the design, to the character."""

from __future__ import annotations

import json

import pytest

from watchword.registration.aws_irsa.documents import (
    LONGEST_ROLE_NAME,
    AgentAccounts,
    EksClusterArn,
    IamRole,
    hub_role,
    identity_creator_role,
    managed_cluster_role,
)
from watchword.registration.aws_irsa.errors import InvalidName

HUB = EksClusterArn("aws", "us-west-2", "111122223333", "fleet-hub")
MANAGED = EksClusterArn("aws", "eu-central-1", "444455556666", "edge-1")
PROVIDER = "oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE"
IDENTIFIER = "b73c2edb26c8f6a60e32115ede7785e5"  # md5 of 111122223333#fleet-hub#444455556666#edge-1
VALUES = {
    "<hub-account-id>": "111122223333",
    "<hub-cluster-account-id>": "111122223333",
    "<hub-cluster-name>": "fleet-hub",
    "<hub-region>": "us-west-2",
    "<managed-cluster-account-id>": "444455556666",
    "<managed-cluster-name>": "edge-1",
    "<md5-hash-unique-identifier>": IDENTIFIER,
    "<oidc-provider>": PROVIDER,
    "<klusterlet-name>": "klusterlet",
}


def filled(template: str) -> str:
    for placeholder, value in VALUES.items():
        template = template.replace(placeholder, value)
    return template


def agent_role(hub: EksClusterArn = HUB, managed: EksClusterArn = MANAGED) -> IamRole:
    return managed_cluster_role(hub, managed, PROVIDER, AgentAccounts())


def test_role_of_an_agent_is_that_of_the_design() -> None:
    role = agent_role()

    assert role.arn == filled(
        "arn:aws:iam::<managed-cluster-account-id>:role/ocm-managed-cluster-<md5-hash-unique-identifier>"
    )
    assert role.access_policy == filled(MANAGED_CLUSTER_ACCESS)
    assert role.trust_policy == filled(MANAGED_CLUSTER_TRUST)
    assert dict(role.tags) == {
        "hub_cluster_account_id": "111122223333",
        "hub_cluster_name": "fleet-hub",
        "managed_cluster_account_id": "444455556666",
        "managed_cluster_name": "edge-1",
    }


def test_role_of_an_accepted_cluster_is_that_of_the_design() -> None:
    role = hub_role(HUB, MANAGED)

    assert role.arn == filled("arn:aws:iam::<hub-account-id>:role/ocm-hub-<md5-hash-unique-identifier>")
    assert role.access_policy == filled(HUB_ACCESS)
    assert role.trust_policy == filled(HUB_TRUST)
    assert role.tags == {**agent_role().tags, "hub_cluster_arn": str(HUB)}


def test_role_of_the_identity_creator_is_that_of_the_design() -> None:
    role = identity_creator_role(HUB, PROVIDER, extended=False)

    assert role.arn == filled("arn:aws:iam::<hub-account-id>:role/<hub-cluster-name>_managed-cluster-identity-creator")
    assert role.access_policy == filled(IDENTITY_CREATOR_ACCESS)
    assert role.trust_policy == filled(IDENTITY_CREATOR_TRUST)
    assert dict(role.tags) == {}


def test_extended_role_of_the_identity_creator_adds_statements_only() -> None:
    plain, extended = identity_creator_role(HUB, PROVIDER, extended=False), identity_creator_role(HUB, PROVIDER)

    assert extended.access_policy.startswith(plain.access_policy.removesuffix("\n  ]\n}\n"))
    own, *added = extended.access["Statement"]
    assert [own] == plain.access["Statement"]
    actions = {
        action for row in added for action in (row["Action"] if isinstance(row["Action"], list) else [row["Action"]])
    }
    assert actions == {
        "iam:TagRole",
        "eks:DescribeCluster",
        *(f"eks:{verb}AccessEntry" for verb in ("Create", "Describe", "Update", "Delete")),
    }
    assert extended.trust_policy == plain.trust_policy


@pytest.mark.parametrize(
    ("partition", "region"),
    [("aws-cn", "cn-north-1"), ("aws-us-gov", "us-gov-west-1"), ("aws-iso-b", "us-isob-east-1")],
)
def test_documents_name_the_partition_of_the_clusters(partition: str, region: str) -> None:
    hub = EksClusterArn(partition, region, "111122223333", "fleet-hub")
    managed = EksClusterArn(partition, region, "444455556666", "edge-1")

    for role in (agent_role(hub, managed), hub_role(hub, managed), identity_creator_role(hub, PROVIDER)):
        text = role.arn + json.dumps([role.access, role.trust])
        assert f"arn:{partition}:" in text
        assert "arn:aws:" not in text


def test_cluster_of_another_partition_has_no_roles() -> None:
    managed = EksClusterArn("aws-cn", "cn-north-1", "444455556666", "edge-1")

    with pytest.raises(InvalidName, match="choose a hub in aws-cn"):
        hub_role(HUB, managed)


def test_agent_elsewhere_is_trusted_by_its_own_accounts_alone() -> None:
    role = managed_cluster_role(HUB, MANAGED, PROVIDER, AgentAccounts("open-cluster-management-two", "second"))

    subjects = [statement["Condition"]["StringEquals"][f"{PROVIDER}:sub"] for statement in role.trust["Statement"]]

    assert subjects == [
        "system:serviceaccount:open-cluster-management-two:second-registration-sa",
        "system:serviceaccount:open-cluster-management-two:second-work-sa",
    ]


@pytest.mark.parametrize(
    ("namespace", "klusterlet"), [("a:b", "klusterlet"), ("agent", 'x","aud":"'), ("", "klusterlet"), ("agent", "*")]
)
def test_names_that_kubernetes_refuses_do_not_reach_a_document(namespace: str, klusterlet: str) -> None:
    with pytest.raises(InvalidName):
        AgentAccounts(namespace, klusterlet)


def test_longest_name_of_a_hub_fits_into_a_role_name() -> None:
    role = identity_creator_role(EksClusterArn("aws", "us-west-2", "111122223333", "h" * 31), PROVIDER)

    assert len(role.name) == LONGEST_ROLE_NAME


def test_hub_whose_name_is_too_long_for_a_role_is_refused() -> None:
    with pytest.raises(InvalidName, match="at most 31"):
        identity_creator_role(EksClusterArn("aws", "us-west-2", "111122223333", "h" * 32), PROVIDER)


# The documents as the design writes them.

MANAGED_CLUSTER_ACCESS = """\
{
   "Version": "2012-10-17",
   "Statement": [
      {
         "Effect": "Allow",
         "Action": "sts:AssumeRole",
         "Resource": "arn:aws:iam::<hub-account-id>:role/ocm-hub-<md5-hash-unique-identifier>"
      }
   ]
}
"""

MANAGED_CLUSTER_TRUST = """\
{
   "Version": "2012-10-17",
   "Statement": [
      {
         "Effect": "Allow",
         "Principal": {
            "Federated": "arn:aws:iam::<managed-cluster-account-id>:oidc-provider/<oidc-provider>"
         },
         "Action": "sts:AssumeRoleWithWebIdentity",
         "Condition": {
            "StringEquals": {
               "<oidc-provider>:sub": "system:serviceaccount:open-cluster-management-agent:<klusterlet-name>-registration-sa",
               "<oidc-provider>:aud": "sts.amazonaws.com"
            }
         }
      },
      {
         "Effect": "Allow",
         "Principal": {
            "Federated": "arn:aws:iam::<managed-cluster-account-id>:oidc-provider/<oidc-provider>"
         },
         "Action": "sts:AssumeRoleWithWebIdentity",
         "Condition": {
            "StringEquals": {
               "<oidc-provider>:sub": "system:serviceaccount:open-cluster-management-agent:<klusterlet-name>-work-sa",
               "<oidc-provider>:aud": "sts.amazonaws.com"
            }
         }
      }
   ]
}
"""  # noqa: E501 - as the design writes it

IDENTITY_CREATOR_ACCESS = """\
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": [
        "iam:CreateRole",
        "iam:DeleteRole",
        "iam:UpdateAssumeRolePolicy",
        "iam:PutRolePolicy",
        "iam:DeleteRolePolicy",
        "iam:AttachRolePolicy",
        "iam:DetachRolePolicy",
        "iam:CreatePolicy",
        "iam:DeletePolicy",
        "iam:CreatePolicyVersion",
        "iam:DeletePolicyVersion",
        "iam:ListAttachedRolePolicies",
        "iam:ListRolePolicies",
        "iam:ListPolicyVersions",
        "iam:GetRole",
        "iam:GetRolePolicy",
        "iam:GetPolicy",
        "iam:GetPolicyVersion",
        "iam:PassRole"
      ],
      "Resource": [
        "arn:aws:iam::<hub-account-id>:role/ocm-hub-*",
        "arn:aws:iam::<hub-account-id>:policy/ocm-hub-*"
      ]
    }
  ]
}
"""

IDENTITY_CREATOR_TRUST = """\
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Principal": {
        "Federated": "arn:aws:iam::<hub-account-id>:oidc-provider/<oidc-provider>"
      },
      "Action": "sts:AssumeRoleWithWebIdentity",
      "Condition": {
        "StringEquals": {
          "<oidc-provider>:sub": "system:serviceaccount:open-cluster-management-hub:registration-controller-sa",
          "<oidc-provider>:aud": "sts.amazonaws.com"
        }
      }
    }
  ]
}
"""

HUB_ACCESS = """\
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": [
        "eks:DescribeCluster",
        "eks:ListClusters"
      ],
      "Resource": "arn:aws:eks:<hub-region>:<hub-account-id>:cluster/<hub-cluster-name>"
    }
  ]
}
"""

HUB_TRUST = """\
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Principal": {
        "AWS": "arn:aws:iam::<managed-cluster-account-id>:role/ocm-managed-cluster-<md5-hash-unique-identifier>"
      },
      "Action": "sts:AssumeRole",
      "Condition": {\x20\x20
        "StringEquals": {
                "aws:PrincipalTag/hub_cluster_account_id":"<hub-cluster-account-id>",
                "aws:PrincipalTag/hub_cluster_name":"<hub-cluster-name>",
                "aws:PrincipalTag/managed_cluster_account_id":"<managed-cluster-account-id>",
                "aws:PrincipalTag/managed_cluster_name":"<managed-cluster-name>"
        }
      }
    }
  ]
}
"""
