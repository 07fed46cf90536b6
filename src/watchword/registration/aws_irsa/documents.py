"""EKS clusters by their ARNs, the IAM policies of the design for them, and the documents that administrators apply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import md5
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from watchword.api.names import AGENT_NAMESPACE
from watchword.api.validation import validate_dns_label, validate_dns_subdomain
from watchword.registration.aws_irsa.errors import InvalidName

DEFAULT_PARTITION = "aws"
REGION_PREFIXES = {
    "aws-cn": "cn-",
    "aws-us-gov": "us-gov-",
    "aws-iso": "us-iso-",
    "aws-iso-b": "us-isob-",
    "aws-iso-e": "eu-isoe-",
    "aws-iso-f": "us-isof-",
    "aws-eusc": "eusc-",
}
"""Partition → how its regions begin; every other region belongs to the default partition."""

CLUSTER_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}", re.ASCII)
_ARN = re.compile(
    r"arn:(?P<partition>[a-z-]{3,12}):eks:(?P<region>[a-z]{2,4}(?:-[a-z]{1,12}){1,3}-[0-9]{1,2})"
    r":(?P<account>[0-9]{12}):cluster/(?P<name>" + CLUSTER_NAME.pattern + ")",
    re.ASCII,
)
_OIDC_PROVIDER = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?:/[0-9A-Za-z_.-]{1,128}){0,4}", re.ASCII)
_FORM = "arn:<partition>:eks:<region>:<12-digit account>:cluster/<name>"


class EksClusterArn(Struct, frozen=True):
    """An EKS cluster: where it runs, in whose account, and its name there."""

    partition: str
    region: str
    account: str
    name: str

    def __str__(self) -> str:
        return f"arn:{self.partition}:eks:{self.region}:{self.account}:cluster/{self.name}"

    @classmethod
    def parse(cls, text: str) -> EksClusterArn:
        """Return the cluster that an ARN names; `InvalidName` when the text is not the ARN of an EKS cluster."""
        match = _ARN.fullmatch(text)
        if match is None:
            raise InvalidName(f"{_shortened(text)} is not the ARN of an EKS cluster: give {_FORM}")
        found = cls(**match.groupdict())
        partition = next(
            (name for name, prefix in REGION_PREFIXES.items() if found.region.startswith(prefix)), DEFAULT_PARTITION
        )
        if found.partition != partition:
            raise InvalidName(
                f"region {found.region} is not in partition {found.partition}: "
                f"give the ARN as AWS prints it, beginning with arn:{partition}:eks"
            )
        return found


def parse_oidc_provider(text: str) -> str:
    """Return an OIDC provider as IAM names it, from its name or its issuer URL; `InvalidName` when it is neither."""
    name = text.removeprefix("https://")
    if _OIDC_PROVIDER.fullmatch(name) is None:
        raise InvalidName(
            f"{_shortened(text)} is not an OIDC provider: give the issuer of the EKS cluster, as "
            "`aws eks describe-cluster --query cluster.identity.oidc.issuer` prints it"
        )
    return name


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= 200 else f"{text[:200]!r}…"


DELIMITER = "#"
HUB_ARN_TAG = "hub_cluster_arn"
"""The tag that tells hubs of one account and name apart, which share the names of roles."""


class RoleTags(Struct, frozen=True):
    """A hub and a managed cluster as the tags of their roles name them, in alphabetical order of the keys.

    `InvalidName` when a value cannot name an account or a cluster; with a delimiter in it, two pairs could share roles.
    """

    hub_cluster_account_id: str
    hub_cluster_name: str
    managed_cluster_account_id: str
    managed_cluster_name: str

    def __post_init__(self) -> None:
        for key, value in self.as_dict().items():
            if CLUSTER_NAME.fullmatch(value) is None:
                raise InvalidName(
                    f"{key} {value[:200]!r} is malformed: use 1 to 100 letters, digits, '-' and '_', "
                    "and begin with a letter or digit"
                )

    @classmethod
    def of(cls, hub: EksClusterArn, managed: EksClusterArn) -> RoleTags:
        """Return the tags of two clusters; `InvalidName` when no role of one can be assumed from the other."""
        if hub.partition != managed.partition:
            raise InvalidName(
                f"cluster {managed} cannot join hub {hub}: roles cannot be assumed across the partitions "
                f"{managed.partition} and {hub.partition}; choose a hub in {managed.partition}"
            )
        return cls(hub.account, hub.name, managed.account, managed.name)

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    @property
    def identifier(self) -> str:
        """The md5 of the values, joined in the order of their keys: 32 hexadecimal digits."""
        joined = DELIMITER.join(value for _, value in sorted(self.as_dict().items()))
        return md5(joined.encode(), usedforsecurity=False).hexdigest()


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


LONGEST_ROLE_NAME = 64
CREATOR_SUFFIX = "_managed-cluster-identity-creator"
DEFAULT_KLUSTERLET = "klusterlet"
_PLACEHOLDER = re.compile(r"<([a-z0-9-]+)>")


class IamRole(Struct, frozen=True):
    """A role with its inline access policy, which has the name of the role."""

    partition: str
    account: str
    name: str
    access_policy: str
    trust_policy: str
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        return f"arn:{self.partition}:iam::{self.account}:role/{self.name}"

    @property
    def access(self) -> Any:
        return json.loads(self.access_policy)

    @property
    def trust(self) -> Any:
        return json.loads(self.trust_policy)


class AgentAccounts(Struct, frozen=True):
    """Where the ServiceAccounts of an agent are: namespace, and the Klusterlet that they are named after."""

    namespace: str = AGENT_NAMESPACE
    klusterlet: str = DEFAULT_KLUSTERLET

    def __post_init__(self) -> None:
        objection = validate_dns_label(self.namespace)
        if objection:
            raise InvalidName(f"agent namespace {self.namespace!r} {objection}")
        objection = validate_dns_subdomain(self.klusterlet)
        if objection:
            raise InvalidName(f"klusterlet name {self.klusterlet!r} {objection}")


def managed_cluster_role(
    hub: EksClusterArn, managed: EksClusterArn, oidc_provider: str, accounts: AgentAccounts
) -> IamRole:
    """Return the role of a cluster's agent, in the account of the cluster; `oidc_provider` is the cluster's."""
    tags = RoleTags.of(hub, managed)
    values = _values(hub, managed, tags) | {
        "oidc-provider": oidc_provider,
        "agent-namespace": accounts.namespace,
        "klusterlet-name": accounts.klusterlet,
    }
    return IamRole(
        managed.partition,
        managed.account,
        f"ocm-managed-cluster-{tags.identifier}",
        _fill(MANAGED_CLUSTER_ACCESS, values),
        _fill(MANAGED_CLUSTER_TRUST, values),
        tags.as_dict(),
    )


def hub_role(hub: EksClusterArn, managed: EksClusterArn) -> IamRole:
    tags = RoleTags.of(hub, managed)
    values = _values(hub, managed, tags)
    return IamRole(
        hub.partition,
        hub.account,
        f"ocm-hub-{tags.identifier}",
        _fill(HUB_ACCESS, values),
        _fill(HUB_TRUST, values),
        {**tags.as_dict(), HUB_ARN_TAG: str(hub)},
    )


def identity_creator_role(hub: EksClusterArn, oidc_provider: str, *, extended: bool = True) -> IamRole:
    """Return the role of the hub's controller; `oidc_provider` is the hub's.

    Without `extended` it has the rights of the design alone, with which this hub cannot accept clusters: the tags of
    roles and the access entries of the hub are missing.
    """
    access = IDENTITY_CREATOR_ACCESS
    if extended:
        end = access.rindex("\n", 0, access.rindex("]"))
        access = f"{access[:end]},\n{HUB_STATEMENTS}{access[end:]}"
    name = f"{hub.name}{CREATOR_SUFFIX}"
    if len(name) > LONGEST_ROLE_NAME:
        raise InvalidName(
            f"role {name} has {len(name)} characters and IAM allows {LONGEST_ROLE_NAME}: "
            f"choose a hub whose EKS name has at most {LONGEST_ROLE_NAME - len(CREATOR_SUFFIX)}"
        )
    values = {
        "partition": hub.partition,
        "hub-region": hub.region,
        "hub-account-id": hub.account,
        "hub-cluster-name": hub.name,
        "oidc-provider": oidc_provider,
    }
    return IamRole(
        hub.partition,
        hub.account,
        name,
        _fill(access, values),
        _fill(IDENTITY_CREATOR_TRUST, values),
    )


def _values(hub: EksClusterArn, managed: EksClusterArn, tags: RoleTags) -> dict[str, str]:
    return {
        "partition": hub.partition,
        "hub-region": hub.region,
        "hub-account-id": hub.account,
        "hub-cluster-name": hub.name,
        "managed-cluster-account-id": managed.account,
        "managed-cluster-name": managed.name,
        "md5-hash-unique-identifier": tags.identifier,
    }


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder once: what a value holds is never read as a placeholder."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)
