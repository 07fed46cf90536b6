"""Creates and repairs roles in IAM; needs the extra `aws`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from watchword.drivers.aws_irsa.documents import IamRole
from watchword.drivers.aws_irsa.errors import AwsRefused, AwsUnreachable, WrongAccount
from watchword.drivers.aws_irsa.role_repair import RoleChange, StoredRole, decide_repairs

ABSENT = "NoSuchEntity"
NEXT_STEPS = {
    "AccessDenied": "use AWS credentials that are allowed to do this",
    "EntityAlreadyExists": "run the command again, which repairs the role that was created meanwhile",
    "ExpiredToken": "get new AWS credentials",
    "InvalidClientTokenId": "check AWS_PROFILE and the AWS credentials",
    "SignatureDoesNotMatch": "check AWS_PROFILE and the AWS credentials",
    "Throttling": "run the command again in a minute",
}
"""Error code → what to do. The messages of AWS are not shown: that of a wrong signature may quote the session token."""

_CONFIG = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard"})


@dataclass(frozen=True, slots=True)
class RoleWriter:
    """Makes IAM have a role; writes only what differs. boto3 blocks, so its requests run in a thread."""

    iam: Any
    sts: Any

    @classmethod
    def connect(cls, region: str) -> RoleWriter:
        """Make the clients, with the credentials that the `aws` command would use; the region names the partition."""
        try:
            session = boto3.Session(region_name=region)
            return cls(session.client("iam", config=_CONFIG), session.client("sts", config=_CONFIG))
        except BotoCoreError as error:
            raise _unanswered(error) from error

    async def apply(self, role: IamRole) -> tuple[RoleChange, ...]:
        """Create or repair a role and return what changed.

        Raises `WrongAccount`, `ForeignRole`, `AwsRefused` or `AwsUnreachable`; nothing is written after the first two.
        """
        await self._check_account(role)
        stored = await self._read(role.name)
        if stored is None:
            await self._create(role)
            return (RoleChange.CREATED, RoleChange.ACCESS)
        changes = decide_repairs(role, stored)
        for change in changes:
            await self._repair(role, change)
        return changes

    async def _check_account(self, role: IamRole) -> None:
        caller = await _ask(self.sts.get_caller_identity)
        partition = caller["Arn"].split(":")[1]
        if (partition, caller["Account"]) != (role.partition, role.account):
            raise WrongAccount(
                f"the AWS credentials belong to account {caller['Account']} in partition {partition}: "
                f"use credentials of account {role.account} in partition {role.partition} for role {role.name}"
            )

    async def _read(self, name: str) -> StoredRole | None:
        found = await _find(self.iam.get_role, RoleName=name)
        if found is None:
            return None
        policy = await _find(self.iam.get_role_policy, RoleName=name, PolicyName=name)
        role = found["Role"]
        return StoredRole(
            arn=role["Arn"],
            trust=role["AssumeRolePolicyDocument"],
            access=policy and policy["PolicyDocument"],
            tags={tag["Key"]: tag["Value"] for tag in role.get("Tags", [])},
        )

    async def _create(self, role: IamRole) -> None:
        await _ask(
            self.iam.create_role, RoleName=role.name, AssumeRolePolicyDocument=role.trust_policy, Tags=_tags(role)
        )
        # IAM is eventually consistent: a policy for a role that is not visible yet would be refused.
        await _ask(self.iam.get_waiter("role_exists").wait, RoleName=role.name)
        await self._repair(role, RoleChange.ACCESS)

    async def _repair(self, role: IamRole, change: RoleChange) -> None:
        if change is RoleChange.TRUST:
            await _ask(self.iam.update_assume_role_policy, RoleName=role.name, PolicyDocument=role.trust_policy)
        elif change is RoleChange.TAGS:
            await _ask(self.iam.tag_role, RoleName=role.name, Tags=_tags(role))
        else:
            await _ask(
                self.iam.put_role_policy, RoleName=role.name, PolicyName=role.name, PolicyDocument=role.access_policy
            )


def _tags(role: IamRole) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in role.tags.items()]


async def _find(operation: Callable[..., Any], **arguments: Any) -> Any:
    """Return what a read answers, None when there is no such thing."""
    try:
        return await _ask(operation, **arguments)
    except AwsRefused as refusal:
        if refusal.code == ABSENT:
            return None
        raise


async def _ask(operation: Callable[..., Any], **arguments: Any) -> Any:
    """Run one request in a thread; `AwsRefused` or `AwsUnreachable` when it fails."""
    try:
        return await asyncio.to_thread(operation, **arguments)
    except ClientError as error:
        raise _refused(error, arguments.get("RoleName", "")) from error
    except BotoCoreError as error:
        raise _unanswered(error) from error


def _refused(error: ClientError, role: str) -> AwsRefused:
    code = str(error.response["Error"]["Code"])
    about = f" of role {role}" if role else ""
    step = NEXT_STEPS.get(code, "look the error code up in the IAM API reference")
    return AwsRefused(f"AWS refused {error.operation_name}{about} with {code}: {step}", code=code)


def _unanswered(error: BotoCoreError) -> AwsUnreachable:
    if isinstance(error, NoCredentialsError):
        return AwsUnreachable("there are no AWS credentials: set AWS_PROFILE, or run `aws configure`")
    return AwsUnreachable(
        f"AWS cannot be asked ({type(error).__name__}): check the network, AWS_PROFILE and AWS_REGION"
    )
