"""Creates, corrects and deletes the IAM roles and policies of clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import StrEnum
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct, field

from watchword.kube.backoff import Backoff
from watchword.registration.aws_irsa.aws_api import AwsApi, find
from watchword.registration.aws_irsa.documents import HUB_ARN_TAG, IamRole
from watchword.registration.aws_irsa.errors import AwsRefused, ForeignRole, WrongAccount

EXISTS, IN_USE = "EntityAlreadyExists", "DeleteConflict"
SETTLING = Backoff(first=1.0, limit=10.0)
"""IAM is eventually consistent: what it has just stored may be unknown to the next request for some seconds."""

SETTLING_ATTEMPTS = 6
T = TypeVar("T")


class RoleWriter(Struct):
    """Makes IAM have a role; writes only what differs."""

    api: AwsApi
    random: Random
    extra_tags: Mapping[str, str] = field(default_factory=dict)  # written, and no proof of whose role it is
    _caller: tuple[str, str] | None = None

    async def apply(self, role: IamRole) -> tuple[RoleChange, ...]:
        """Create or repair a role and return what changed.

        Raises `WrongAccount`, `ForeignRole`, `AwsRefused` or `AwsUnreachable`; nothing is written after the first two.
        """
        await self.check_account(role)
        stored = await self.read(role.name)
        if stored is None:
            return await self._create(role)
        return await self._repair_all(role, stored)

    async def create(self, role: IamRole) -> tuple[RoleChange, ...]:
        """Create a role that probably does not exist, in two requests; one that exists must have its tags."""
        await self.check_account(role)
        try:
            return await self._create(role)
        except AwsRefused as refusal:
            if refusal.code != EXISTS:
                raise
        stored = await settled(lambda: self.read(role.name), self.random, is_settled=lambda found: found is not None)
        if stored is None:
            return await self._create(role)
        validate_ownership(role, stored)
        return await self._repair_all(role, stored)

    async def find_differences(self, role: IamRole) -> tuple[RoleChange, ...]:
        """Return what `apply` would change; writes nothing."""
        await self.check_account(role)
        stored = await self.read(role.name)
        return (RoleChange.CREATED,) if stored is None else decide_repairs(role, stored, self.extra_tags)

    async def delete(self, role: IamRole) -> None:
        """Delete a role with its policies, unless it is gone; `ForeignRole` when it is not that of the cluster."""
        await self.check_account(role)
        found = await find(self.api, "iam", "get_role", RoleName=role.name)
        if found is None:
            return
        validate_deletion(role, _stored(found["Role"], None))
        await find(self.api, "iam", "delete_role_policy", RoleName=role.name, PolicyName=role.name)
        try:
            await find(self.api, "iam", "delete_role", RoleName=role.name)
        except AwsRefused as refusal:
            if refusal.code != IN_USE:
                raise
            await self._delete_policies(role.name)
            await find(self.api, "iam", "delete_role", RoleName=role.name)

    async def check_account(self, role: IamRole) -> None:
        """Raise `WrongAccount` when the credentials belong to another account than the role."""
        if self._caller is None:
            caller = await self.api.call("sts", "get_caller_identity")
            self._caller = caller["Arn"].split(":")[1], caller["Account"]
        partition, account = self._caller
        if (partition, account) != (role.partition, role.account):
            self._caller = None  # the credentials may be replaced
            raise WrongAccount(
                f"the AWS credentials belong to account {account} in partition {partition}: "
                f"use credentials of account {role.account} in partition {role.partition} for role {role.name}"
            )

    async def read(self, name: str) -> StoredRole | None:
        found = await find(self.api, "iam", "get_role", RoleName=name)
        if found is None:
            return None
        policy = await find(self.api, "iam", "get_role_policy", RoleName=name, PolicyName=name)
        return _stored(found["Role"], policy and policy["PolicyDocument"])

    async def _create(self, role: IamRole) -> tuple[RoleChange, ...]:
        trust, tags = role.trust_policy, self._tags(role)
        await self.api.call("iam", "create_role", RoleName=role.name, AssumeRolePolicyDocument=trust, Tags=tags)
        await settled(lambda: self._repair(role, RoleChange.ACCESS), self.random)
        return (RoleChange.CREATED, RoleChange.ACCESS)

    async def _repair_all(self, role: IamRole, stored: StoredRole) -> tuple[RoleChange, ...]:
        changes = decide_repairs(role, stored, self.extra_tags)
        for change in changes:
            await self._repair(role, change)
        return changes

    async def _repair(self, role: IamRole, change: RoleChange) -> None:
        name, call = role.name, self.api.call
        if change is RoleChange.TRUST:
            await call("iam", "update_assume_role_policy", RoleName=name, PolicyDocument=role.trust_policy)
        elif change is RoleChange.TAGS:
            await call("iam", "tag_role", RoleName=name, Tags=self._tags(role))
        else:
            await call("iam", "put_role_policy", RoleName=name, PolicyName=name, PolicyDocument=role.access_policy)

    def _tags(self, role: IamRole) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in {**self.extra_tags, **role.tags}.items()]

    async def _delete_policies(self, name: str) -> None:
        inline = await find(self.api, "iam", "list_role_policies", RoleName=name) or {}
        for policy in inline.get("PolicyNames", []):
            await find(self.api, "iam", "delete_role_policy", RoleName=name, PolicyName=policy)
        attached = await find(self.api, "iam", "list_attached_role_policies", RoleName=name) or {}
        for row in attached.get("AttachedPolicies", []):
            await find(self.api, "iam", "detach_role_policy", RoleName=name, PolicyArn=row["PolicyArn"])


async def settled(
    ask: Callable[[], Awaitable[T]],
    random: Random,
    *,
    is_settled: Callable[[T], bool] = lambda _: True,
    unsettled_codes: frozenset[str] = frozenset(),
) -> T:
    """Repeat a request while AWS does not see earlier writes yet; return or raise the last result."""
    for failures in range(1, SETTLING_ATTEMPTS):
        try:
            answer = await ask()
            if is_settled(answer):
                return answer
        except AwsRefused as refusal:
            if not refusal.is_absence and refusal.code not in unsettled_codes:
                raise
        await asyncio.sleep(SETTLING.delay(failures, random))
    return await ask()


def _stored(role: Any, access: Any) -> StoredRole:
    return StoredRole(
        arn=role["Arn"],
        trust=role["AssumeRolePolicyDocument"],
        access=access,
        tags={tag["Key"]: tag["Value"] for tag in role.get("Tags", [])},
    )


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
    _require_same_hub(role, stored)
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
    """Raise `ForeignRole` when a role that exists before its cluster was accepted was not made for that cluster."""
    _require_same_hub(role, stored)
    if not _is_made_for_cluster(role, stored):
        raise ForeignRole(
            f"role {role.arn} exists and has neither the tags nor the trust policy of this cluster: delete the role, "
            f"or set its tags to {', '.join(f'{key}={value}' for key, value in role.tags.items())}"
        )


def validate_deletion(role: IamRole, stored: StoredRole) -> None:
    """Raise `ForeignRole` when the role is not exactly the one that was made for the cluster."""
    _require_same_hub(role, stored)
    if stored.arn != role.arn or not _is_made_for_cluster(role, stored):
        raise ForeignRole(
            f"role {stored.arn} does not have the tags of this cluster and is not deleted: "
            "delete it yourself if it is not used, or restore its tags"
        )


def _require_same_hub(role: IamRole, stored: StoredRole) -> None:
    """Raise `ForeignRole` when another hub of the same account and name, in another region, has made the role."""
    hub = stored.tags.get(HUB_ARN_TAG)
    if hub and hub != role.tags.get(HUB_ARN_TAG, hub):
        raise ForeignRole(
            f"role {role.arn} belongs to hub {hub}: two hubs of the same account and name cannot both accept this "
            "cluster; remove it from the other hub, or give one of the hubs another name"
        )


def _is_made_for_cluster(role: IamRole, stored: StoredRole) -> bool:
    """Whether a role has the tags of the cluster and its hub, or else exactly the policies that it should have.

    Roles that earlier versions or Open Cluster Management made do not name the hub; OCM's have no access policy.
    """
    if HUB_ARN_TAG in stored.tags:
        return _has_tags(role.tags, stored)
    return stored.trust == role.trust and stored.access in (None, role.access)


def _has_tags(tags: Mapping[str, str], stored: StoredRole) -> bool:
    return all(stored.tags.get(key) == value for key, value in tags.items())


def _oidc_providers(trust: Any) -> Iterator[str]:
    statements = trust.get("Statement", [])
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal")
        federated = principal.get("Federated", []) if isinstance(principal, dict) else []
        yield from federated if isinstance(federated, list) else [federated]
