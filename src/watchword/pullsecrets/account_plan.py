"""What a ServiceAccount and its pull secrets need, decided from facts alone."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.pull_secrets import ANNOTATION_PULL_SECRET, DISABLED, LABEL_PULL_SECRETS
from watchword.api.time import parse_rfc3339
from watchword.pullsecrets.pull_secret import Credentials, PullSecret, default_secret_name

REFERENCE_ALONE_AFTER = timedelta(minutes=5)
"""How long the annotation waits for the first token, so that it and the listing are one write; many accounts that are
created at once wait for their turn."""

SECRET_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class AccountPlan(Struct, frozen=True):
    """What to do for one ServiceAccount; nothing of it when all is as it should be."""

    create: str = ""  # the name of the Secret that is missing
    mend: PullSecret | None = None  # the Secret whose owner or annotations are not as they should be
    changes: Object | None = None  # the merge patch of the ServiceAccount
    remove: tuple[PullSecret, ...] = ()
    recheck_in: timedelta | None = None


def decide_account(account: Object, secrets: Sequence[PullSecret], *, selected: bool, now: datetime) -> AccountPlan:
    own = [secret for secret in secrets if belongs_to(secret, account)]
    if not selected:
        removed = _removable(own)
        return AccountPlan(changes=_account_changes(account, "", removed=removed, listed=False), remove=removed)
    name = choose_secret_name(account, secrets)
    chosen = next((secret for secret in own if secret.key.name == name), None)
    extra = tuple(secret for secret in _removable(own) if secret.key.name != name)
    if chosen is None:
        taken = any(secret.key.name == name for secret in secrets)  # by an earlier account of this name: it goes
        changes = _account_changes(account, name, removed=extra, listed=False, reference=False)
        return AccountPlan(create="" if taken else name, changes=changes, remove=extra)
    if chosen.deleting:
        return AccountPlan(remove=extra)
    filled = chosen.is_legacy or isinstance(chosen.content, Credentials)
    patience = timedelta(0) if filled else _reference_in(chosen, now)
    referenced = annotations_of(account).get(ANNOTATION_PULL_SECRET) == name
    listed = filled and not chosen.is_legacy
    reference = patience <= timedelta(0)
    return AccountPlan(
        mend=chosen if not chosen.is_legacy and chosen.owner_uid != uid_of(account) else None,
        changes=_account_changes(account, name, removed=extra, listed=listed, reference=reference),
        remove=extra,
        recheck_in=None if reference or referenced else patience,
    )


def belongs_to(secret: PullSecret, account: Object) -> bool:
    """Whether a pull secret is this very account's; one that lost its owner is told by name alone."""
    metadata = account["metadata"]
    same = (secret.key.namespace, secret.account) == (metadata["namespace"], metadata["name"])
    return same and secret.owner_uid in ("", metadata["uid"])


def choose_secret_name(account: Object, secrets: Sequence[PullSecret]) -> str:
    """Return the name of the account's pull secret.

    The annotation decides, unless it names a pull secret of another account. Without it the account's own secret is
    found again, a managed one before a legacy one; without any, the name is derived from the account's UID.
    """
    own = [secret for secret in secrets if belongs_to(secret, account)]
    others = {secret.key.name for secret in secrets} - {secret.key.name for secret in own}
    reference = annotations_of(account).get(ANNOTATION_PULL_SECRET, "")
    if reference not in others and SECRET_NAME.fullmatch(reference):
        return reference
    default = default_secret_name(ObjectKey.of(account), uid_of(account))
    found = min(own, key=lambda s: (s.deleting, s.is_legacy, s.key.name != default, s.key.name), default=None)
    return default if found is None else found.key.name


def is_disabled(obj: Object | None) -> bool:
    metadata = {} if obj is None else obj.get("metadata") or {}
    return (metadata.get("labels") or {}).get(LABEL_PULL_SECRETS) == DISABLED


def _removable(own: Sequence[PullSecret]) -> tuple[PullSecret, ...]:
    """Return the pull secrets that controllers made: a token bound to another Secret is in a copy that a user made."""
    return tuple(secret for secret in own if not (secret.is_legacy or secret.deleting or _is_copy(secret)))


def _is_copy(secret: PullSecret) -> bool:
    return isinstance(secret.content, Credentials) and secret.content.token.secret_uid not in ("", secret.uid)


def _reference_in(secret: PullSecret, now: datetime) -> timedelta:
    created = parse_rfc3339(secret.created_at)
    left = timedelta(0) if created is None else created + REFERENCE_ALONE_AFTER - now
    return min(left, REFERENCE_ALONE_AFTER)


def _account_changes(
    account: Object, name: str, *, removed: Sequence[PullSecret], listed: bool, reference: bool = True
) -> Object | None:
    """Return the merge patch of the account; an empty `name` takes away every reference."""
    changes: Object = {}
    present = annotations_of(account).get(ANNOTATION_PULL_SECRET)
    if reference and (present or "") != name:
        changes["metadata"] = {"annotations": {ANNOTATION_PULL_SECRET: name or None}}
    gone = {secret.key.name for secret in removed}
    pulls = [row for row in _references(account, "imagePullSecrets") if row.get("name") not in gone]
    if listed and not any(row.get("name") == name for row in pulls):
        pulls.append({"name": name})
    mounted = [row for row in _references(account, "secrets") if row.get("name") not in {*gone, name}]
    for field, wanted in (("imagePullSecrets", pulls), ("secrets", mounted)):
        if wanted != _references(account, field):
            changes[field] = wanted
    return changes or None


def _references(account: Object, field: str) -> list[dict[str, Any]]:
    return account.get(field) or []
