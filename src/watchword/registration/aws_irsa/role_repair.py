"""Decides what to change about a role that IAM has already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from watchword.registration.aws_irsa.documents import IamRole
from watchword.registration.aws_irsa.errors import ForeignRole

NO_TAGS: Mapping[str, str] = MappingProxyType({})


class RoleChange(StrEnum):
    """One change of a role, as it is reported."""

    CREATED = "role created"
    TRUST = "trust policy replaced"
    TAGS = "tags written"
    ACCESS = "access policy written"


class StoredRole(Struct, frozen=True):
    """A role as IAM has it; `access` is None when it has no inline policy of the role's name."""

    arn: str
    trust: Any
    access: Any
    tags: Mapping[str, str]


def decide_repairs(
    role: IamRole, stored: StoredRole, extra_tags: Mapping[str, str] = NO_TAGS
) -> tuple[RoleChange, ...]:
    """Return what differs; `ForeignRole` when the role is not ours to change. Tags of other keys are kept."""
    if stored.arn != role.arn:
        raise ForeignRole(f"IAM has role {role.name} as {stored.arn}: delete it, so that {role.arn} can be created")
    wanted, found = set(_oidc_providers(role.trust)), set(_oidc_providers(stored.trust))
    if found and not wanted & found:
        raise ForeignRole(
            f"role {role.arn} trusts {' and '.join(sorted(found))}: it belongs to another EKS cluster of the "
            "same account and name; delete the role if that cluster is gone, otherwise rename one of the clusters"
        )
    differs = {
        RoleChange.TRUST: stored.trust != role.trust,
        RoleChange.TAGS: not _has_tags({**extra_tags, **role.tags}, stored),
        RoleChange.ACCESS: stored.access != role.access,
    }
    return tuple(change for change, needed in differs.items() if needed)


def validate_ownership(role: IamRole, stored: StoredRole) -> None:
    """Raise `ForeignRole` when a role that exists before its cluster was accepted does not have all of its tags."""
    if not _has_tags(role.tags, stored):
        raise ForeignRole(
            f"role {role.arn} exists and does not have the tags of this cluster: delete the role, or set its tags "
            f"to {', '.join(f'{key}={value}' for key, value in role.tags.items())}"
        )


def validate_deletion(role: IamRole, stored: StoredRole) -> None:
    """Raise `ForeignRole` when the role is not exactly the one that was made for the cluster."""
    if stored.arn != role.arn or not _has_tags(role.tags, stored):
        raise ForeignRole(
            f"role {stored.arn} does not have the tags of this cluster and is not deleted: "
            "delete it yourself if it is not used, or restore its tags"
        )


def _has_tags(tags: Mapping[str, str], stored: StoredRole) -> bool:
    return all(stored.tags.get(key) == value for key, value in tags.items())


def _oidc_providers(trust: Any) -> Iterator[str]:
    """Return the OIDC providers of a trust policy, in each of the forms that IAM accepts."""
    statements = trust.get("Statement", [])
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal")
        federated = principal.get("Federated", []) if isinstance(principal, dict) else []
        yield from federated if isinstance(federated, list) else [federated]
