"""Decides which IAM roles a hub and its clusters need, with their documents to the character."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from watchword.api.names import AGENT_NAMESPACE
from watchword.api.validation import validate_dns_label, validate_dns_subdomain
from watchword.registration.aws_irsa import templates
from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.errors import InvalidName
from watchword.registration.aws_irsa.identifier import RoleTags

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
        """The ARN of the role."""
        return f"arn:{self.partition}:iam::{self.account}:role/{self.name}"

    @property
    def access(self) -> Any:
        """The access policy as IAM understands it."""
        return json.loads(self.access_policy)

    @property
    def trust(self) -> Any:
        """The trust policy as IAM understands it."""
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
        _fill(templates.MANAGED_CLUSTER_ACCESS, values),
        _fill(templates.MANAGED_CLUSTER_TRUST, values),
        tags.as_dict(),
    )


def hub_role(hub: EksClusterArn, managed: EksClusterArn) -> IamRole:
    """Return the role that an accepted cluster assumes, in the account of the hub."""
    tags = RoleTags.of(hub, managed)
    values = _values(hub, managed, tags)
    return IamRole(
        hub.partition,
        hub.account,
        f"ocm-hub-{tags.identifier}",
        _fill(templates.HUB_ACCESS, values),
        _fill(templates.HUB_TRUST, values),
        tags.as_dict(),
    )


def identity_creator_role(hub: EksClusterArn, oidc_provider: str, *, extended: bool = False) -> IamRole:
    """Return the role of the hub's controller; `oidc_provider` is the hub's.

    It has the rights of the design; `extended` adds the tags of roles and the access entries of the hub.
    """
    access = templates.IDENTITY_CREATOR_ACCESS
    if extended:
        access = templates.extended(access, templates.HUB_STATEMENTS)
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
        _fill(templates.IDENTITY_CREATOR_TRUST, values),
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
