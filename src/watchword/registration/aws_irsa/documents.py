"""EKS clusters by their ARNs, the IAM policies of the design for them, and the documents that administrators apply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import md5
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from watchword.api.meta import Object
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
"""Lets the agent's role assume the role of its cluster, when all four tags agree; with the design's whitespace."""

CREATOR_ACTIONS = (
    "CreateRole DeleteRole UpdateAssumeRolePolicy PutRolePolicy DeleteRolePolicy AttachRolePolicy DetachRolePolicy "
    "CreatePolicy DeletePolicy CreatePolicyVersion DeletePolicyVersion ListAttachedRolePolicies ListRolePolicies "
    "ListPolicyVersions GetRole GetRolePolicy GetPolicy GetPolicyVersion PassRole"
)
"""What the hub's controller does in IAM with the roles of accepted clusters."""

CREATOR_ACCOUNT = "system:serviceaccount:open-cluster-management-hub:registration-controller-sa"


def _policy(*statements: Object, indent: int = 2) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=indent) + "\n"


def _allow(action: str | list[str], resource: str | list[str]) -> Object:
    return {"Effect": "Allow", "Action": action, "Resource": resource}


def _trust_account(cluster: EksClusterArn, oidc_provider: str, account: str) -> Object:
    """Return what lets a ServiceAccount of an EKS cluster assume a role in the account of that cluster."""
    return {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:{cluster.partition}:iam::{cluster.account}:oidc-provider/{oidc_provider}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{oidc_provider}:sub": account, f"{oidc_provider}:aud": "sts.amazonaws.com"}},
    }


LONGEST_ROLE_NAME = 64
CREATOR_SUFFIX = "_managed-cluster-identity-creator"
DEFAULT_KLUSTERLET = "klusterlet"


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
    hub_arn = f"arn:{hub.partition}:iam::{hub.account}:role/ocm-hub-{tags.identifier}"
    prefix = f"system:serviceaccount:{accounts.namespace}:{accounts.klusterlet}"
    trusted = [_trust_account(managed, oidc_provider, f"{prefix}-{name}") for name in ("registration-sa", "work-sa")]
    return IamRole(
        managed.partition,
        managed.account,
        f"ocm-managed-cluster-{tags.identifier}",
        _policy(_allow("sts:AssumeRole", hub_arn), indent=3),
        _policy(*trusted, indent=3),
        tags.as_dict(),
    )


def hub_role(hub: EksClusterArn, managed: EksClusterArn) -> IamRole:
    """Return the role of an accepted cluster, with which it finds the hub's API server."""
    tags = RoleTags.of(hub, managed)
    values = {
        "partition": hub.partition,
        "hub-account-id": hub.account,
        "hub-cluster-name": hub.name,
        "managed-cluster-account-id": managed.account,
        "managed-cluster-name": managed.name,
        "md5-hash-unique-identifier": tags.identifier,
    }
    return IamRole(
        hub.partition,
        hub.account,
        f"ocm-hub-{tags.identifier}",
        _policy(_allow(["eks:DescribeCluster", "eks:ListClusters"], str(hub))),
        re.sub(r"<([a-z0-9-]+)>", lambda match: values[match[1]], HUB_TRUST),
        {**tags.as_dict(), HUB_ARN_TAG: str(hub)},
    )


def identity_creator_role(hub: EksClusterArn, oidc_provider: str, *, extended: bool = True) -> IamRole:
    """Return the role of the hub's controller; `oidc_provider` is the hub's.

    Without `extended` it has the rights of the design alone, with which this hub cannot accept clusters: the tags of
    roles and the access entries of the hub are missing.
    """
    name = f"{hub.name}{CREATOR_SUFFIX}"
    if len(name) > LONGEST_ROLE_NAME:
        raise InvalidName(
            f"role {name} has {len(name)} characters and IAM allows {LONGEST_ROLE_NAME}: "
            f"choose a hub whose EKS name has at most {LONGEST_ROLE_NAME - len(CREATOR_SUFFIX)}"
        )
    iam, eks = f"arn:{hub.partition}:iam::{hub.account}", f"arn:{hub.partition}:eks:{hub.region}:{hub.account}"
    actions = [f"iam:{action}" for action in CREATOR_ACTIONS.split()]
    access = [_allow(actions, [f"{iam}:role/ocm-hub-*", f"{iam}:policy/ocm-hub-*"])]
    if extended:
        entries = f"{eks}:access-entry/{hub.name}/role/{hub.account}/ocm-hub-*"
        access += [
            _allow("iam:TagRole", f"{iam}:role/ocm-hub-*"),
            _allow(["eks:DescribeCluster", "eks:CreateAccessEntry"], str(hub)),
            _allow([f"eks:{verb}AccessEntry" for verb in ("Describe", "Update", "Delete")], entries),
        ]
    trust = _policy(_trust_account(hub, oidc_provider, CREATOR_ACCOUNT))
    return IamRole(hub.partition, hub.account, name, _policy(*access), trust)
