"""What a restore must not bring back: denials and revocations that were made after the backup."""

from collections.abc import Callable, Mapping
from uuid import uuid4

import orjson
from msgspec.structs import replace

from watchword.admin.hub_restore import intersect_grants, restore_cluster
from watchword.api import resources
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.bootstrap import TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_PREFIX
from watchword.api.meta import Object, is_deleting, uid_of
from watchword.api.pull_secrets import SERVICE_ACCOUNT_TOKEN_TYPE
from watchword.api.sensitive import HiddenFields
from watchword.apiserver.store.encryption import RowCipher
from watchword.apiserver.store.snapshot import Row, SnapshotSummary

BOOTSTRAP_TOKENS = f"{TOKEN_SECRET_NAMESPACE}/{TOKEN_SECRET_PREFIX}"


class Correction(HiddenFields, frozen=True):
    """One object that is not restored as the backup has it; `obj` None: it stays deleted."""

    hidden = ("obj",)  # of a Secret, decrypted

    saved: Row
    obj: Object | None

    @property
    def key(self) -> str:
        return f"{self.saved.bucket}/{self.saved.path}"

    def row(self, revision: int) -> Row:
        obj = self.obj if self.obj is not None else orjson.loads(self.saved.body)
        obj["metadata"]["resourceVersion"] = str(revision)
        return replace(self.saved, revision=revision, deleted=self.obj is None, body=orjson.dumps(obj))


Rule = Callable[[Object, Object | None], Object | None]
"""Takes an object of the backup and the same one of today, None when it was deleted; returns what is restored."""


def stay_deleted(saved: Object, present: Object | None) -> Object | None:
    return saved if present is not None else None


def invalidate(saved: Object, present: Object | None) -> Object | None:
    """Tokens are bound to the UID of what was deleted: under another one they stay refused."""
    if present is not None:
        return saved
    return {**saved, "metadata": {**saved["metadata"], "uid": str(uuid4())}}


def restore_secret(saved: Object, present: Object | None) -> Object | None:
    path = f"{saved['metadata']['namespace']}/{saved['metadata']['name']}"
    is_token = path.startswith(BOOTSTRAP_TOKENS) or saved.get("type") == SERVICE_ACCOUNT_TOKEN_TYPE
    return present if is_token else invalidate(saved, present)


def intersect_subjects(saved: Object, present: Object | None) -> Object | None:
    return _intersect(saved, present, "subjects")


def intersect_rules(saved: Object, present: Object | None) -> Object | None:
    if present is None or saved.get("aggregationRule") != present.get("aggregationRule"):
        return present
    return saved if saved.get("aggregationRule") else _intersect(saved, present, "rules")


def _intersect(saved: Object, present: Object | None, field: str) -> Object | None:
    """Return what both grant."""
    if present is None:
        return None
    granted = present.get(field) or []
    return {**saved, field: [each for each in saved.get(field) or [] if each in granted]}


RULES: Mapping[str, Rule] = {
    resources.MANAGED_CLUSTERS.group_resource: restore_cluster,
    **{kind.group_resource: stay_deleted for kind in (*ACCOUNT_KINDS, resources.MANAGED_CLUSTER_ADDONS)},
    resources.CONFIG_MAPS.group_resource: intersect_grants,
    resources.CERTIFICATE_SIGNING_REQUESTS.group_resource: lambda _, present: present,
    resources.SERVICE_ACCOUNTS.group_resource: invalidate,
    resources.SECRETS.group_resource: restore_secret,
    resources.PODS.group_resource: invalidate,
    resources.NODES.group_resource: invalidate,
    resources.ROLE_BINDINGS.group_resource: intersect_subjects,
    resources.CLUSTER_ROLE_BINDINGS.group_resource: intersect_subjects,
    resources.ROLES.group_resource: intersect_rules,
    resources.CLUSTER_ROLES.group_resource: intersect_rules,
}


def decide_corrections(saved: SnapshotSummary, present: SnapshotSummary, cipher: RowCipher) -> list[Correction]:
    """Return what is restored otherwise than saved; `StoreOpenError` when a Secret cannot be decrypted."""
    found: list[Correction] = []
    for key, row in saved.rows.items():
        rule, other = RULES.get(row.bucket), present.rows.get(key)
        if rule is None or (other is not None and other.body == row.body):
            continue
        decrypted = cipher.decrypt(row)
        before = orjson.loads(decrypted.body)
        today = orjson.loads(cipher.decrypt(other).body) if other is not None else None
        if today is not None and (uid_of(today) != uid_of(before) or (is_deleting(today) and not is_deleting(before))):
            today = None  # deleted, and another one was made or its finalizers run
        restored = rule(before, today)
        if restored != before:
            found.append(Correction(decrypted, restored))
    return found
