"""Keeps an account on this cluster: its ServiceAccount, its token at the hub, and its status."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from msgspec import Struct

from watchword.accounts.agent.token_secrets import HeldToken, LocalAccount, TokenSecrets
from watchword.api.accounts import Account, choose_declaration, resource_of, superseded_by
from watchword.api.conditions import Condition
from watchword.api.credential_report import format_issued
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, is_deleting, labels_of, uid_of
from watchword.api.names import NAME_CONFLICT, Annotation, ConditionType, Label
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.credentials.evidence import TokenRequest
from watchword.credentials.lifecycle import Keep, Obtain, Reason
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, Forbidden, KubeError, NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import Ensurer
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.metrics import TokenRefreshMetrics
from watchword.runtime.reconcile import FIRST_RECHECK, Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

PRESENT, SECRET, REPORTED, SCHEDULED = (
    ConditionType.ALL_ACCOUNTS_PRESENT,
    ConditionType.SECRET_CREATED,
    ConditionType.TOKEN_REPORTED,
    ConditionType.ROTATION_SCHEDULED,
)
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
    metrics: TokenRefreshMetrics

    async def reconcile(self, key: ObjectKey) -> Outcome:
        declared = [obj for kind in self.kinds if (obj := self.hub.get(kind, key)) is not None]
        account = choose_declaration(declared)
        if account is None or account.deleting:
            return await self._revoke(key, declared)
        leaving = [obj for obj in declared if is_deleting(obj)]
        declared = [obj for obj in declared if not is_deleting(obj)]
        for obj in leaving:  # the other object still declares the account, so there is nothing to revoke
            await self._write(obj, revoked_account(str(self._local_key(key))))
        if account.objection:
            refused = Condition.false(REPORTED, "InvalidAccount", account.objection)
            await self._report(account, declared, StatusChange(conditions=(refused,)))
            return Done()
        return await self._keep(account, declared)

    async def _keep(self, account: Account, declared: Sequence[Object]) -> Outcome:
        try:
            known = self.secrets.account_uid(account.key)
            service_account = await self.accounts.ensure(account, declared, known_uid=known)
        except BeingDeleted as error:
            await self._report(account, declared, absent_account("BeingReplaced", str(error)))
            return Done()
        except NameConflict as conflict:
            await self._report(account, declared, absent_account(NAME_CONFLICT, str(conflict)))
            return Done()
        except KubeError as error:
            if not isinstance(error, Conflict):
                await self._report(account, declared, absent_account("ServiceAccountFailed", str(error)))
            raise
        return await self._keep_token(account, declared, uid_of(service_account))

    async def _keep_token(self, account: Account, declared: Sequence[Object], uid: str) -> Outcome:
        now, local = self.clock.now(), LocalAccount(self._local_key(account.key), uid)
        held: HeldToken | None = None
        try:
            held = await self.secrets.held(account, declared, local)
            decision = self.secrets.decide(account, local, held, now=now)
            if isinstance(decision, Obtain):
                held = await self._request(account, declared, local, decision.reason)
                decision = self.secrets.decide(account, local, held, now=now)
        except NameConflict as conflict:
            # The Secret may be the account's own, written by this agent or one before it, and not granted yet.
            if now - self.secrets.conflict_since(account.key, now) < GRANT_PATIENCE:
                return RetryAfter(SHORTEST_DELAY)
            await self._report(account, declared, unstored_token(str(conflict)))
            return Done()
        except KubeError as error:
            await self._report(account, declared, failed_request(str(error)))
            raise
        if held is None:
            await self._report(account, declared, failed_request("the cluster issued a token without an expiry"))
            return Done()
        renew_at = decision.until if isinstance(decision, Keep) else None
        change = decide_status(account, str(local.key), held, renew_at, now=now)
        await self._report(account, declared, change)
        if not isinstance(decision, Keep):
            return RetryAfter(FIRST_RECHECK)  # a token was just issued, and is not what is wanted: the clocks disagree
        if decision.until is None and now >= held.token.expires_at:
            return Done()
        until = (decision.until or held.token.expires_at) - now
        return RetryAfter(min(max(until, SHORTEST_DELAY), LONGEST_DELAY))

    async def _request(
        self, account: Account, declared: Sequence[Object], local: LocalAccount, because: Reason
    ) -> HeldToken | None:
        began = self.clock.now()
        try:
            wanted = TokenRequest(
                account=local.key, uid=local.uid, lifetime=account.validity, audiences=account.audiences
            )
            issued = await self.secrets.evidence.obtain(self.accounts.client, wanted, now=began)
            held = await self.secrets.write(account, declared, issued, self.clock.now())
        except (KubeError, NameConflict) as error:
            self.metrics.failed(because, error)
            raise
        self.metrics.refreshed(because, seconds=(self.clock.now() - began).total_seconds())
        log = structlog.get_logger("watchword.accounts")
        log.info("token reported", account=str(account.key), because=because.value)
        return held

    async def _revoke(self, key: ObjectKey, declared: Sequence[Object]) -> Outcome:
        known = self.secrets.account_uid(key)
        reported = any((obj.get("status") or {}).get("tokenSecretRef") for obj in declared)
        try:
            if await self.accounts.remove(key.name, look=bool(declared), known_uid=known, was_reported=reported):
                return RetryAfter(SHORTEST_DELAY)
        except NameConflict as conflict:
            for obj in declared:
                await self._write(obj, absent_account(NAME_CONFLICT, str(conflict)))
            return RetryAfter(FIRST_RECHECK)
        self.secrets.forget(key)
        for obj in declared:
            await self._write(obj, revoked_account(str(self._local_key(key))))
        return Done()

    async def _report(self, account: Account, declared: Sequence[Object], change: StatusChange) -> None:
        for obj in declared:
            await self._write(obj, for_declaration(change, obj, account))

    async def _write(self, obj: Object, change: StatusChange) -> None:
        try:
            await self.status.write(resource_of(obj), obj, change)
        except NotFound:
            return  # the object is gone, and its end is reconciled next

    def _local_key(self, key: ObjectKey) -> ObjectKey:
        return ObjectKey(self.accounts.namespace, key.name)


class ServiceAccounts(Struct, frozen=True):
    """The managed ServiceAccounts in the agent's namespace."""

    reader: Reader
    client: Client
    namespace: str
    owners: Sequence[Object]  # references to the account that the agent runs as: what it makes goes with it

    async def ensure(self, account: Account, declared: Sequence[Object], *, known_uid: str = "") -> Object:
        """Return the ServiceAccount as it stands afterwards; the one with the known UID is the account's in any case.

        Raises `NameConflict` when a ServiceAccount of that name was not made for a managed account, `BeingDeleted`
        while that of an earlier account of the name is being deleted.
        """
        name = account.key.name
        if any(name == owner["name"] for owner in self.owners):
            raise NameConflict(f"{name} is the service account of the agent itself: choose another name")
        key, uids = ObjectKey(self.namespace, name), {uid_of(obj) for obj in declared}
        await self._remove_predecessor(key, uids)
        metadata: Object = {
            "labels": {Label.MANAGED_ACCOUNT: "true"},
            "annotations": {Annotation.ACCOUNT_UID: account.uid},
        }
        if owners := self._current_owners():
            metadata["ownerReferences"] = owners
        wanted = SERVICE_ACCOUNTS.manifest(key, metadata=metadata, automountServiceAccountToken=False)
        try:
            return await Ensurer(self.reader, self.client).ensure(
                SERVICE_ACCOUNTS,
                wanted,
                ours=lambda present: uid_of(present) == known_uid or is_made_for(present, uids),
            )
        except Forbidden:  # a manager of Open Cluster Management grants no changes: one of its agent serves as it is
            present = self.reader.get(SERVICE_ACCOUNTS, key)
            if present is None or is_deleting(present) or not is_made_for(present, uids):
                raise
            return present

    async def remove(self, name: str, *, look: bool = False, known_uid: str = "", was_reported: bool = False) -> bool:
        """Delete the ServiceAccount if a managed account made it; return whether one is left.

        With `look`, the server is asked, too: the cache does not show one whose label was removed. Raises
        `NameConflict` when tokens were reported and it is unknown whether they are of the present one.
        """
        key = ObjectKey(self.namespace, name)
        found = self.reader.get(SERVICE_ACCOUNTS, key)
        if found is None and look:
            found = await self.client.find(SERVICE_ACCOUNTS, key)
        if found is None:
            return False
        if not (is_managed(found) or self._is_own(found) or uid_of(found) == known_uid):
            if known_uid or not was_reported:
                return False  # another one: tokens end with the one that they are of
            raise NameConflict(
                f"service account {key} has no mark of a managed account and may be the one whose tokens were "
                "reported: delete it if it is"
            )
        if not is_deleting(found):
            try:
                await self.client.delete(SERVICE_ACCOUNTS, key, uid=uid_of(found))
            except NotFound:
                return False  # the cache is behind
        if look:
            left = await self.client.find(SERVICE_ACCOUNTS, key)
            return left is not None and uid_of(left) == uid_of(found)
        return self.reader.get(SERVICE_ACCOUNTS, key) is not None

    def _is_own(self, found: Object) -> bool:
        uids = {owner["uid"] for owner in self._current_owners()}
        return any(owner.get("uid") in uids for owner in found["metadata"].get("ownerReferences") or ())

    def _current_owners(self) -> list[Object]:
        """Return the owners with the UIDs that they have now: one may have been created again since the start."""
        keys = [ObjectKey(self.namespace, owner["name"]) for owner in self.owners]
        found = [self.reader.get(SERVICE_ACCOUNTS, key) for key in keys]
        pairs = zip(self.owners, found, strict=True)
        rows = (owner if now is None else {**owner, "uid": uid_of(now)} for owner, now in pairs)
        return [row for row in rows if row["uid"]]  # an impersonated account has none

    async def _remove_predecessor(self, key: ObjectKey, uids: set[str]) -> None:
        """Delete what an account of that name left that is gone: its tokens must not outlive it."""
        found = self.reader.get(SERVICE_ACCOUNTS, key)
        made_for = annotations_of(found or {}).get(Annotation.ACCOUNT_UID)
        if found is not None and made_for and made_for not in uids:
            await self.remove(key.name)
            raise BeingDeleted(f"service account {key} belongs to a deleted account of that name and is being removed")


def is_managed(present: Object) -> bool:
    return Annotation.ACCOUNT_UID in annotations_of(present) or labels_of(present).get(Label.MANAGED_ACCOUNT) == "true"


def is_made_for(present: Object, uids: set[str]) -> bool:
    """Whether a ServiceAccount is that of the account: by UID, or by the label alone when an OCM agent made it."""
    made_for = annotations_of(present).get(Annotation.ACCOUNT_UID)
    if made_for:
        return made_for in uids
    return labels_of(present).get(Label.MANAGED_ACCOUNT) == "true"


def decide_status(
    account: Account, service_account: str, held: HeldToken, renew_at: datetime | None, *, now: datetime
) -> StatusChange:
    fields: Object = {
        "expirationTimestamp": rfc3339(held.token.expires_at),
        "tokenSecretRef": {"name": account.key.name, "lastRefreshTimestamp": rfc3339(held.token.issued_at)},
        "nextRenewalTimestamp": rfc3339(renew_at) if renew_at is not None else None,
    }
    conditions = (
        Condition.true(PRESENT, "ServiceAccountPresent", f"service account {service_account} is on the cluster"),
        Condition.true(SECRET, "SecretCreated", f"Secret {account.key} is on the hub"),
        _reported(held, now),
        _scheduled(held, renew_at),
    )
    return StatusChange(conditions=conditions, fields=fields)


def _reported(held: HeldToken, now: datetime) -> Condition:
    if now >= held.token.expires_at:
        message = f"the token expired at {rfc3339(held.token.expires_at)} and rotation is off: enable it to get another"
        return Condition.false(REPORTED, "TokenExpired", message)
    issued = format_issued(held.token.credential_id)  # another text for each token, so that a renewal is seen
    message = f"the Secret on the hub holds a token of the service account{issued}"
    return Condition.true(REPORTED, "TokenReported", message)


def _scheduled(held: HeldToken, renew_at: datetime | None) -> Condition:
    if renew_at is None:
        message = f"rotation is off: the token expires at {rfc3339(held.token.expires_at)} and is not renewed"
        return Condition.false(SCHEDULED, "RotationDisabled", message)
    return Condition.true(SCHEDULED, "RotationScheduled", "the token is renewed before it expires")


def absent_account(reason: str, message: str) -> StatusChange:
    return StatusChange(
        conditions=(
            Condition.false(PRESENT, reason, message),
            Condition.false(REPORTED, "TokenReportFailed", "there is no service account to request a token for"),
        )
    )


def unstored_token(message: str) -> StatusChange:
    return StatusChange(
        conditions=(
            Condition.false(SECRET, NAME_CONFLICT, message),
            Condition.false(REPORTED, "TokenReportFailed", "the token was not stored on the hub"),
        )
    )


def failed_request(message: str) -> StatusChange:
    """Return the status of an account whose token could not be requested or stored; it is retried."""
    return StatusChange(conditions=(Condition.false(REPORTED, "TokenReportFailed", message),))


def revoked_account(service_account: str) -> StatusChange:
    message = f"service account {service_account} is removed from the cluster, and its tokens with it"
    return StatusChange(conditions=(Condition.false(PRESENT, "Revoked", message),))


def for_declaration(change: StatusChange, obj: Object, account: Account) -> StatusChange:
    """Return a change as one of the objects reports it that declare the account; both say the same of the token."""
    fields = change.fields
    if fields is not None and resource_of(obj) is not MANAGED_SERVICE_ACCOUNTS:
        fields = {name: value for name, value in fields.items() if name != "nextRenewalTimestamp"}
    if obj is account.object:
        return StatusChange(change.conditions, (ConditionType.SUPERSEDED,), fields)
    return StatusChange((*change.conditions, superseded_by(account)), (), fields)
