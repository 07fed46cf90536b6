"""Has an account in a cluster's namespace revoked before it is gone, and its Secret replaced when it was changed."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from watchword.accounts.metrics import HubAccountMetrics
from watchword.api.accounts import ACCOUNT_KINDS, ADDON_NAME, Account, AccountSecret, is_owned_by, lost_its_owner
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import (
    Object,
    ObjectKey,
    Resource,
    finalizers_of,
    is_deleting,
    labels_of,
    owner_reference,
    uid_of,
)
from watchword.api.names import Annotation, ConditionType, Finalizer, Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, SECRETS
from watchword.api.time import parse_rfc3339, rfc3339_micro
from watchword.api.validation import validate_server_address
from watchword.credentials.lifecycle import read_bound_token
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import add_finalizer, delete_object, remove_finalizer, with_preconditions
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusChange, StatusWriter

PENDING_AFTER = timedelta(seconds=5)
REQUEST_PATIENCE, LONGEST_PATIENCE = timedelta(seconds=10), timedelta(hours=1)
SAME_END = timedelta(seconds=5)
REVOKED = "Revoked"
ADDON_NOT_ENABLED = "AddonNotEnabled"


class AccountGuardReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of one group; also triggered by its Secret, its cluster and the add-on."""

    reader: Reader
    client: Client
    status: StatusWriter
    clock: Clock
    kind: Resource
    metrics: HubAccountMetrics
    _requested: dict[ObjectKey, datetime] = field(default_factory=dict)  # since when an agent has not answered

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Hold the account while it may have to be revoked; release it when the cluster has confirmed."""
        found = self.reader.get(self.kind, key)
        cluster = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace))
        if found is None:
            self._requested.pop(key, None)
            return Done()
        account = Account.read(found)
        if cluster is None and not (account.deleting and Finalizer.ACCOUNT in finalizers_of(found)):
            return Done()
        if account.deleting:
            return await self._release(account, cluster)
        ends = account.expires_at()
        if ends is not None and self.clock.now() >= ends:
            await self.client.delete(self.kind, key, uid=account.uid)
            return Done()
        if cluster is not None and await self._hold(account) and await self._check_secret(account, cluster):
            return RetryAfter(await self._request_rotation(account))
        self._requested.pop(key, None)
        return RetryAfter(ends - self.clock.now()) if ends is not None else Done()

    async def _hold(self, account: Account) -> bool:
        """Return whether an agent keeps the account; without the add-on its tokens ended with its agent."""
        addon = self.reader.get(MANAGED_CLUSTER_ADDONS, ObjectKey(account.key.namespace, ADDON_NAME))
        if addon is None:
            message = (
                "the add-on is not on the cluster: run "
                f"`watchword addon enable {ADDON_NAME} -c {account.key.namespace}`"
            )
            was_reported = find_condition(account.object, ConditionType.TOKEN_REPORTED) is not None
            types = (ConditionType.ALL_ACCOUNTS_PRESENT, *((ConditionType.TOKEN_REPORTED,) if was_reported else ()))
            absent = tuple(Condition.false(type_, ADDON_NOT_ENABLED, message) for type_ in types)
            fields = {"tokenSecretRef": None, "expirationTimestamp": None} if was_reported else None
            await self.status.write(self.kind, account.object, StatusChange(absent, fields=fields))
            await self._remove_secret(account, [self.reader.get(kind, account.key) for kind in ACCOUNT_KINDS])
        elif Finalizer.ACCOUNT not in finalizers_of(account.object):
            with contextlib.suppress(NotFound):
                await add_finalizer(self.client, self.kind, account.object, Finalizer.ACCOUNT)
        return addon is not None

    async def _release(self, account: Account, cluster: Object | None) -> Outcome:
        others = [self.reader.get(kind, account.key) for kind in ACCOUNT_KINDS if kind is not self.kind]
        lives_on = any(other is not None and not is_deleting(other) for other in others)
        if not lives_on:
            await self._remove_secret(account, [account.object, *others])
        if Finalizer.ACCOUNT not in finalizers_of(account.object):
            return Done()
        addon = self.reader.get(MANAGED_CLUSTER_ADDONS, ObjectKey(account.key.namespace, ADDON_NAME))
        ends = lives_on or cluster is None or addon is None
        if ends or is_confirmed(account.object) or is_kept_by_ocm(account.object):
            await remove_finalizer(self.client, self.kind, account.object, Finalizer.ACCOUNT)
            deleted = deletion_of(account.object)
            if deleted is not None and is_confirmed(account.object):
                self.metrics.revocation.observe((self.clock.now() - deleted).total_seconds())
            return Done()
        remaining = remaining_patience(account.object, now=self.clock.now())
        if remaining > timedelta(0):
            return RetryAfter(remaining)
        message = (
            f"cluster {account.key.namespace} has not confirmed that the service account is removed, and its tokens "
            f"may still be accepted there; to stop waiting, run `watchword serviceaccount delete {account.key.name} "
            f"-n {account.key.namespace} --abandon`"
        )
        pending = Condition.true(ConditionType.REVOCATION_PENDING, "ClusterNotReached", message)
        with contextlib.suppress(NotFound):
            await self.status.set_condition(self.kind, account.object, pending)
        return Done()

    async def _remove_secret(self, account: Account, declared: Iterable[Object | None]) -> None:
        secret = self.reader.get(SECRETS, account.key)
        if secret is not None and is_owned_by(secret, list(declared)):
            await delete_object(self.client, SECRETS, secret)

    async def _check_secret(self, account: Account, cluster: Object) -> bool:
        """Keep the server address right; return whether the agent has to write another token."""
        if not (account.object.get("status") or {}).get("tokenSecretRef"):
            return False
        # The cache may not have been told of a Secret that was written a moment ago.
        found = self.reader.get(SECRETS, account.key) or await self.client.find(SECRETS, account.key)
        declared = [self.reader.get(kind, account.key) for kind in ACCOUNT_KINDS]
        if found is not None and not is_owned_by(found, declared) and not lost_its_owner(found):
            return False  # a Secret of something else: the agent says so
        secret = AccountSecret.read(found) if found is not None else None
        if secret is None or not (secret.is_intact or is_ocm_token(account.object, secret)):
            return True
        metadata = decide_secret_metadata(secret, server_of(cluster), [obj for obj in declared if obj is not None])
        if metadata:
            await self.client.patch(SECRETS, secret.key, {"metadata": {"uid": uid_of(secret.object), **metadata}})
        # The agent adds its own address when it writes a token.
        noted = {**secret.annotations, **metadata.get("annotations", {})}
        return secret.is_intact and noted.get(Annotation.TOKEN_SERVER) is None

    async def _request_rotation(self, account: Account) -> timedelta:
        """Request another token; return when to look again, ever later while the agent does not answer."""
        now = self.clock.now()
        waiting = now - self._requested.setdefault(account.key, now)
        patience = min(max(waiting, REQUEST_PATIENCE), LONGEST_PATIENCE)
        requested = parse_rfc3339(account.rotation_request)
        if requested is not None and timedelta(0) <= now - requested < patience:
            return patience - (now - requested)
        wanted = {Annotation.ROTATION_REQUEST: rfc3339_micro(now)}
        patch = with_preconditions(account.object, {"metadata": {"annotations": wanted}})
        await self.client.patch(self.kind, account.key, patch)
        return patience


def decide_secret_metadata(secret: AccountSecret, server: str, declared: Sequence[Object]) -> Object:
    """Return what has to change in the metadata of an account's Secret: the address, the label, the owner."""
    changes: Object = {}
    if server and secret.server != server:
        changes["annotations"] = {
            Annotation.TOKEN_SERVER: server,
            Annotation.TOKEN_SERVER_SOURCE: MANAGED_CLUSTERS.kind,
        }
    elif not server and Annotation.TOKEN_SERVER_SOURCE in secret.annotations:
        changes["annotations"] = {Annotation.TOKEN_SERVER: None, Annotation.TOKEN_SERVER_SOURCE: None}
    if labels_of(secret.object).get(Label.MANAGED_ACCOUNT) != "true":
        changes["labels"] = {Label.MANAGED_ACCOUNT: "true"}
    if not is_owned_by(secret.object, declared):
        changes["ownerReferences"] = [owner_reference(obj) for obj in declared]
    return changes


def is_confirmed(account: Object) -> bool:
    said = find_condition(account, ConditionType.ALL_ACCOUNTS_PRESENT)
    return said is not None and (said.status, said.reason) == ("False", REVOKED)


def remaining_patience(account: Object, *, now: datetime) -> timedelta:
    deleted = deletion_of(account)
    return deleted + PENDING_AFTER - now if deleted is not None else timedelta(0)


def deletion_of(account: Object) -> datetime | None:
    return parse_rfc3339(str(account["metadata"].get("deletionTimestamp") or ""))


def server_of(cluster: Mapping[str, Any]) -> str:
    """Return the address of a cluster's API server as its ManagedCluster says; empty when that is no address."""
    configs = (cluster.get("spec") or {}).get("managedClusterClientConfigs") or []
    said = str(configs[0].get("url") or "").rstrip("/") if configs else ""
    return "" if validate_server_address(said) else said


def is_kept_by_ocm(account: Object) -> bool:
    """Whether an agent of Open Cluster Management keeps the account, which revokes it once the object is gone."""
    said = find_condition(account, ConditionType.ALL_ACCOUNTS_PRESENT)
    is_of_agent = said is not None and said.reason != ADDON_NOT_ENABLED
    return bool((account.get("status") or {}).get("tokenSecretRef")) and not is_of_agent


def is_ocm_token(account: Object, secret: AccountSecret) -> bool:
    """Whether an agent of Open Cluster Management wrote the token: it leaves no digest, or that of an earlier token.

    Then the status describes this token, and the record in the Secret does not.
    """
    if not secret.token or Annotation.TOKEN_DIGEST not in secret.annotations:
        return bool(secret.token)
    reported = parse_rfc3339(str((account.get("status") or {}).get("expirationTimestamp") or ""))
    token = read_bound_token(secret.token.reveal())
    claimed = None if token is None else token.expires_at
    return _is_near(claimed, reported) and not _is_near(claimed, secret.expires_at)


def _is_near(one: datetime | None, other: datetime | None) -> bool:
    """Whether two ends are the same: servers take the time twice, for the token and for the answer beside it."""
    return one is not None and other is not None and abs(one - other) <= SAME_END
