"""The IAM documents of the design, as texts with placeholders in angle brackets."""

from __future__ import annotations

MANAGED_CLUSTER_ACCESS = """\
{
   "Version": "2012-10-17",
   "Statement": [
      {
         "Effect": "Allow",
         "Action": "sts:AssumeRole",
         "Resource": "arn:<partition>:iam::<hub-account-id>:role/ocm-hub-<md5-hash-unique-identifier>"
      }
   ]
}
"""
"""Lets the agent's role assume its role in the hub's account."""

MANAGED_CLUSTER_TRUST = """\
{
   "Version": "2012-10-17",
   "Statement": [
      {
         "Effect": "Allow",
         "Principal": {
            "Federated": "arn:<partition>:iam::<managed-cluster-account-id>:oidc-provider/<oidc-provider>"
         },
         "Action": "sts:AssumeRoleWithWebIdentity",
         "Condition": {
            "StringEquals": {
               "<oidc-provider>:sub": "system:serviceaccount:<agent-namespace>:<klusterlet-name>-registration-sa",
               "<oidc-provider>:aud": "sts.amazonaws.com"
            }
         }
      },
      {
         "Effect": "Allow",
         "Principal": {
            "Federated": "arn:<partition>:iam::<managed-cluster-account-id>:oidc-provider/<oidc-provider>"
         },
         "Action": "sts:AssumeRoleWithWebIdentity",
         "Condition": {
            "StringEquals": {
               "<oidc-provider>:sub": "system:serviceaccount:<agent-namespace>:<klusterlet-name>-work-sa",
               "<oidc-provider>:aud": "sts.amazonaws.com"
            }
         }
      }
   ]
}
"""
"""Lets the ServiceAccounts of the agent assume the agent's role."""

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
        "arn:<partition>:iam::<hub-account-id>:role/ocm-hub-*",
        "arn:<partition>:iam::<hub-account-id>:policy/ocm-hub-*"
      ]
    }
  ]
}
"""
"""Lets the hub's controller manage the roles of accepted clusters."""

IDENTITY_CREATOR_TRUST = """\
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Principal": {
        "Federated": "arn:<partition>:iam::<hub-account-id>:oidc-provider/<oidc-provider>"
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
"""Lets the ServiceAccount of the hub's controller assume the role of the identity creator."""

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
      "Resource": "arn:<partition>:eks:<hub-region>:<hub-account-id>:cluster/<hub-cluster-name>"
    }
  ]
}
"""
"""Lets an accepted cluster find the hub's API server."""

HUB_TRUST = """\
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Principal": {
        "AWS": "arn:<partition>:iam::<managed-cluster-account-id>:role/ocm-managed-cluster-<md5-hash-unique-identifier>"
      },
      "Action": "sts:AssumeRole",
      "Condition": {\x20\x20
        "StringEquals": {
                "aws:PrincipalTag/hub_cluster_account_id":"<hub-account-id>",
                "aws:PrincipalTag/hub_cluster_name":"<hub-cluster-name>",
                "aws:PrincipalTag/managed_cluster_account_id":"<managed-cluster-account-id>",
                "aws:PrincipalTag/managed_cluster_name":"<managed-cluster-name>"
        }
      }
    }
  ]
}
"""
"""Lets the agent's role assume the role of its cluster, when all four tags agree."""

HUB_STATEMENTS = """\
    {
      "Effect": "Allow",
      "Action": "iam:TagRole",
      "Resource": "arn:<partition>:iam::<hub-account-id>:role/ocm-hub-*"
    },
    {
      "Effect": "Allow",
      "Action": [
        "eks:DescribeCluster",
        "eks:CreateAccessEntry"
      ],
      "Resource": "arn:<partition>:eks:<hub-region>:<hub-account-id>:cluster/<hub-cluster-name>"
    },
    {
      "Effect": "Allow",
      "Action": [
        "eks:DescribeAccessEntry",
        "eks:UpdateAccessEntry",
        "eks:DeleteAccessEntry"
      ],
      "Resource": "arn:<partition>:eks:<hub-region>:<hub-account-id>:access-entry/<hub-cluster-name>/role/<hub-account-id>/ocm-hub-*"
    }"""  # noqa: E501 - one ARN
"""Not part of the design: lets the hub's controller tag roles and manage their access entries."""


def extended(document: str, statements: str) -> str:
    """Return a document with more statements after its own, which stay to the character."""
    end = document.rindex("\n", 0, document.rindex("]"))
    return f"{document[:end]},\n{statements}{document[end:]}"
