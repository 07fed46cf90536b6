"""The condition that reports a cluster's IAM identity, with one reason for each failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from watchword.api.conditions import Condition
from watchword.registration.aws_irsa.access_entries import UNKNOWN_PRINCIPAL
from watchword.registration.aws_irsa.aws_api import THROTTLING
from watchword.registration.aws_irsa.condition_types import READY
from watchword.registration.aws_irsa.errors import (
    AwsAuthUnreadable,
    AwsError,
    AwsRefused,
    AwsUnreachable,
    ForeignRole,
    IdentityMissing,
    LibraryMissing,
    WrongAccount,
)
from watchword.registration.aws_irsa.iam import EXISTS
from watchword.registration.aws_irsa.identity import ClusterIdentity

Test: TypeAlias = Callable[[AwsError], bool]


def report_ready(identity: ClusterIdentity) -> Condition:
    """Return the condition of a cluster whose role and mapping are right."""
    return Condition.true(READY, "AwsIdentityReady", f"EKS cluster {identity.managed} uses role {identity.role.arn}")


def report_changed_claim(identity: ClusterIdentity, objection: str) -> Condition:
    """Return the same for a cluster whose annotations say something else than was accepted."""
    return Condition.true(
        READY, "IdentityChangeRefused", f"EKS cluster {identity.managed} uses role {identity.role.arn}; {objection}"
    )


def report_failure(trouble: AwsError) -> Condition:
    """Return the condition of a cluster whose identity could not be made, verified or deleted."""
    reason = next(reason for applies, reason in REASONS if applies(trouble))
    return Condition.false(READY, reason, str(trouble))


def _is_a(kind: type[AwsError]) -> Test:
    return lambda trouble: isinstance(trouble, kind)


def _has_code(codes: frozenset[str]) -> Test:
    return lambda trouble: isinstance(trouble, AwsRefused) and trouble.code in codes


def _is_unsettled(trouble: AwsError) -> bool:
    """Whether IAM has not settled: a role is unknown to another request, or exists and is not shown."""
    return isinstance(trouble, AwsRefused) and (
        trouble.is_absence or trouble.code in UNKNOWN_PRINCIPAL or trouble.code == EXISTS
    )


def _is_invalid_policy(trouble: AwsError) -> bool:
    """Whether IAM refused a trust policy because the role that it names does not exist."""
    return _has_code(INVALID_POLICY)(trouble)


INVALID_POLICY = frozenset({"MalformedPolicyDocument"})
REASONS: tuple[tuple[Test, str], ...] = (
    (_has_code(THROTTLING), "AwsThrottled"),
    (_is_invalid_policy, "AgentRoleMissing"),
    (_is_unsettled, "WaitingForIam"),
    (_is_a(AwsAuthUnreadable), "AwsAuthUnreadable"),
    (_is_a(AwsUnreachable), "AwsUnreachable"),
    (_is_a(ForeignRole), "ForeignRole"),
    (_is_a(IdentityMissing), "IdentityMissing"),
    (_is_a(LibraryMissing), "AwsLibraryMissing"),
    (_is_a(WrongAccount), "WrongAwsAccount"),
    (_is_a(AwsError), "AwsRefused"),
)
