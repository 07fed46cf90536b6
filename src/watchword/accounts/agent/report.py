"""What an account's status says, from what was found or what went wrong."""

from __future__ import annotations

from datetime import datetime

from watchword.accounts.agent.token_decision import REVOKED, HeldToken, TokenDecision
from watchword.api.accounts import Account, resource_of
from watchword.api.conditions import Condition
from watchword.api.meta import Object
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.runtime.status import StatusChange

PRESENT, SECRET, REPORTED, SCHEDULED = (
    ConditionType.ALL_ACCOUNTS_PRESENT,
    ConditionType.SECRET_CREATED,
    ConditionType.TOKEN_REPORTED,
    ConditionType.ROTATION_SCHEDULED,
)


def decide_status(
    account: Account, service_account: str, held: HeldToken, decision: TokenDecision, *, now: datetime
) -> StatusChange:
    """Say that the account is on its cluster, and how long its token lives."""
    fields: Object = {
        "expirationTimestamp": rfc3339(held.expires_at),
        "tokenSecretRef": {"name": account.key.name, "lastRefreshTimestamp": rfc3339(held.issued_at)},
        "nextRenewalTimestamp": rfc3339(decision.renew_at) if decision.renew_at is not None else None,
    }
    conditions = (
        Condition.true(PRESENT, "ServiceAccountPresent", f"service account {service_account} is on the cluster"),
        Condition.true(SECRET, "SecretCreated", f"Secret {account.key} is on the hub"),
        _reported(held, now),
        _scheduled(held, decision),
    )
    return StatusChange(conditions=conditions, fields=fields)


def _reported(held: HeldToken, now: datetime) -> Condition:
    if now >= held.expires_at:
        message = f"the token expired at {rfc3339(held.expires_at)} and rotation is off: enable it to get another"
        return Condition.false(REPORTED, "TokenExpired", message)
    return Condition.true(REPORTED, "TokenReported", "the Secret on the hub holds a token of the service account")


def _scheduled(held: HeldToken, decision: TokenDecision) -> Condition:
    if decision.renew_at is None:
        message = f"rotation is off: the token expires at {rfc3339(held.expires_at)} and is not renewed"
        return Condition.false(SCHEDULED, "RotationDisabled", message)
    return Condition.true(SCHEDULED, "RotationScheduled", "the token is renewed before it expires")


def invalid_account(objection: str) -> StatusChange:
    """Say why no token is requested for an account."""
    return StatusChange(conditions=(Condition.false(REPORTED, "InvalidAccount", objection),))


def absent_account(reason: str, message: str) -> StatusChange:
    """Say why the ServiceAccount is not on the cluster."""
    return StatusChange(
        conditions=(
            Condition.false(PRESENT, reason, message),
            Condition.false(REPORTED, "TokenReportFailed", "there is no service account to request a token for"),
        )
    )


def unstored_token(message: str) -> StatusChange:
    """Say why the hub's Secret was not written."""
    return StatusChange(
        conditions=(
            Condition.false(SECRET, "NameConflict", message),
            Condition.false(REPORTED, "TokenReportFailed", "the token was not stored on the hub"),
        )
    )


def failed_request(message: str) -> StatusChange:
    """Say that no token could be had or stored this time; it is tried again."""
    return StatusChange(conditions=(Condition.false(REPORTED, "TokenReportFailed", message),))


def revoked_account(service_account: str) -> StatusChange:
    """Say that nothing of a deleted account is left on the cluster."""
    message = f"service account {service_account} is removed from the cluster, and its tokens with it"
    return StatusChange(conditions=(Condition.false(PRESENT, REVOKED, message),))


def for_declaration(change: StatusChange, obj: Object, account: Account) -> StatusChange:
    """Return a change as one of the objects reports it that declare the account; both say the same of the token."""
    fields = change.fields
    if fields is not None and resource_of(obj) is not MANAGED_SERVICE_ACCOUNTS:
        fields = {name: value for name, value in fields.items() if name != "nextRenewalTimestamp"}
    if obj is account.object:
        return StatusChange(change.conditions, (ConditionType.SUPERSEDED,), fields)
    message = f"{account.resource.group_resource} {account.key} declares the same account and decides about it"
    superseded = Condition.true(ConditionType.SUPERSEDED, "DeclaredTwice", message)
    return StatusChange((*change.conditions, superseded), (), fields)
