"""Keeps an account on this cluster: its ServiceAccount, its token at the hub, and its status."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from watchword._structlog import structlog
from watchword.accounts.agent.service_accounts import ServiceAccounts
from watchword.accounts.agent.token_adoption import LocalAccount
from watchword.accounts.agent.token_decision import (
    REVOKED,
    HeldToken,
    RefreshReason,
    TokenDecision,
    decide_token,
    read_account_uid,
)
from watchword.accounts.agent.token_secrets import TokenSecrets
from watchword.accounts.metrics import AgentAccountMetrics
from watchword.api.accounts import Account, choose_declaration, resource_of
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.kube.errors import Conflict, KubeError, NotFound
from watchword.kube.tokens import account_replaced, request_token
from watchword.runtime.clock import Clock
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

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


CONFLICT_RECHECK = timedelta(seconds=10)
SHORTEST_DELAY = timedelta(seconds=1)
GRANT_PATIENCE = timedelta(seconds=10)  # the hub grants names of new Secrets together, after a moment
LONGEST_DELAY = timedelta(days=1)


class AccountReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of both groups; also triggered by the ServiceAccount on the cluster."""

    hub: Reader
    status: StatusWriter
    accounts: ServiceAccounts
    secrets: TokenSecrets
    clock: Clock
    kinds: tuple[Resource, ...]
    metrics: AgentAccountMetrics

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Bring the ServiceAccount, the hub's Secret and the status in line with what is declared."""
        declared = [obj for kind in self.kinds if (obj := self.hub.get(kind, key)) is not None]
        account = choose_declaration(declared)
        if account is None or account.deleting:
            return await self._revoke(key, declared)
        leaving = [obj for obj in declared if is_deleting(obj)]
        declared = [obj for obj in declared if not is_deleting(obj)]
        for obj in leaving:  # the other object still declares the account, so there is nothing to revoke
            await self._write(obj, revoked_account(self._local_name(key)))
        if account.objection:
            await self._report(account, declared, invalid_account(account.objection))
            return Done()
        return await self._keep(account, declared)

    async def _keep(self, account: Account, declared: Sequence[Object]) -> Outcome:
        try:
            service_account = await self.accounts.ensure(account, declared)
        except BeingDeleted as trouble:
            await self._report(account, declared, absent_account("BeingReplaced", str(trouble)))
            return RetryAfter(SHORTEST_DELAY)
        except NameConflict as conflict:
            await self._report(account, declared, absent_account("NameConflict", str(conflict)))
            return RetryAfter(CONFLICT_RECHECK)
        except KubeError as trouble:
            if not isinstance(trouble, Conflict):
                change = absent_account("ServiceAccountFailed", str(trouble))
                await self._report(account, declared, change)
            raise
        return await self._keep_token(account, declared, uid_of(service_account))

    async def _keep_token(self, account: Account, declared: Sequence[Object], uid: str) -> Outcome:
        now = self.clock.now()
        held: HeldToken | None = None
        try:
            held = await self.secrets.held(account, declared, LocalAccount(self._local_key(account.key), uid))
            decision = decide_token(account, uid, held, self.secrets.trust, now=now)
            if decision.request_because:
                held = await self._request(account, declared, uid, decision.request_because)
                decision = decide_token(account, uid, held, self.secrets.trust, now=now)
        except NameConflict as conflict:
            if held is not None and now - held.issued_at < GRANT_PATIENCE:
                return RetryAfter(SHORTEST_DELAY)
            await self._report(account, declared, unstored_token(str(conflict)))
            # The Secret may be that of an agent before this one, whose name the hub has not granted yet.
            is_new = account.created_at is not None and now - account.created_at < GRANT_PATIENCE
            return RetryAfter(SHORTEST_DELAY if is_new else CONFLICT_RECHECK)
        except KubeError as trouble:
            await self._report(account, declared, failed_request(str(trouble)))
            raise
        if held is None:
            await self._report(account, declared, failed_request("the cluster issued a token without an end"))
            return RetryAfter(CONFLICT_RECHECK)
        change = decide_status(account, self._local_name(account.key), held, decision, now=now)
        await self._report(account, declared, change)
        return choose_delay(held, decision, now=now)

    async def _request(
        self, account: Account, declared: Sequence[Object], uid: str, because: RefreshReason
    ) -> HeldToken | None:
        seconds = int(account.validity.total_seconds())
        key = self._local_key(account.key)
        began = self.clock.now()
        try:
            issued = await request_token(
                self.accounts.client, key, expiration_seconds=seconds, audiences=account.audiences, uid=uid
            )
            found = read_account_uid(issued.token)
            if found != uid:
                raise account_replaced(key, wanted=uid, found=found)
            held = await self.secrets.write(account, declared, issued, self.clock.now())
        except (KubeError, NameConflict) as trouble:
            self.metrics.failed(because, trouble)
            raise
        self.metrics.refreshed(because, seconds=(self.clock.now() - began).total_seconds())
        log = structlog.get_logger("watchword.accounts")
        log.info("token reported", account=str(account.key), because=because.value)
        return held

    async def _revoke(self, key: ObjectKey, declared: Sequence[Object]) -> Outcome:
        self.secrets.forget(key)
        if await self.accounts.remove(key.name, look=bool(declared)):
            return RetryAfter(SHORTEST_DELAY)
        for obj in declared:
            await self._write(obj, revoked_account(self._local_name(key)))
        return Done()

    async def _report(self, account: Account, declared: Sequence[Object], change: StatusChange) -> None:
        for obj in declared:
            await self._write(obj, for_declaration(change, obj, account))

    async def _write(self, obj: Object, change: StatusChange) -> None:
        try:
            await self.status.write(resource_of(obj), obj, change)
        except NotFound:
            return  # the object is gone, and its end is reconciled next

    def _local_name(self, key: ObjectKey) -> str:
        return str(self._local_key(key))

    def _local_key(self, key: ObjectKey) -> ObjectKey:
        return ObjectKey(self.accounts.namespace, key.name)


def choose_delay(held: HeldToken, decision: TokenDecision, *, now: datetime) -> Outcome:
    """Return when to look again: at the renewal, or when a token that is not renewed expires."""
    until = (decision.renew_at or held.expires_at) - now
    if decision.renew_at is None and until <= timedelta(0):
        return Done()
    return RetryAfter(min(max(until, SHORTEST_DELAY), LONGEST_DELAY))
