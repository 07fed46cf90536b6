"""An image pull secret as controllers see it: whose it is and what state its token is in, without the token."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
import orjson
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, annotations_of, finalizers_of, is_deleting, uid_of
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT,
    ANNOTATION_ACCOUNT_MISSPELT,
    ANNOTATION_ACCOUNT_NAME,
    ANNOTATION_ACCOUNT_UID,
    ANNOTATION_BINDING,
    ANNOTATION_TOKEN_SECRET,
    DOCKERCFG_KEY,
    DOCKERCFG_TYPE,
    USERNAME,
)
from watchword.api.sensitive import Sensitive
from watchword.credentials.lifecycle import BoundToken, read_bound_token
from watchword.runtime.informer import WatchScope


class Credentials(Struct, frozen=True, tag=True):
    """A readable pull secret: the registries it names, and the claims of the one token in it."""

    registries: tuple[str, ...]
    token: BoundToken


class Empty(Struct, frozen=True, tag=True):
    """A pull secret that holds no credential yet."""


class Corrupt(Struct, frozen=True, tag=True):
    """A pull secret that this program would not have written."""


Content: TypeAlias = Credentials | Empty | Corrupt


def render_dockercfg(registries: Iterable[str], token: Sensitive[str]) -> bytes:
    auth = base64.b64encode(f"{USERNAME}:{token.reveal()}".encode()).decode()
    return orjson.dumps({registry: {"auth": auth} for registry in sorted(set(registries))})


def read_dockercfg(data: bytes) -> Content:
    """Read `.dockercfg`; anything but one token under the expected user name is corrupt."""
    try:
        rows = orjson.loads(data)
    except orjson.JSONDecodeError:
        return Corrupt()
    if rows == {}:
        return Empty()
    if not isinstance(rows, dict):
        return Corrupt()
    facts = read_bound_token(_one_token(rows))
    return Corrupt() if facts is None else Credentials(tuple(sorted(rows)), facts)


def find_dockercfg_token(data: bytes) -> Sensitive[str] | None:
    """Return the one token of `.dockercfg`, None when it is empty or corrupt."""
    return Sensitive(_one_token(orjson.loads(data))) if isinstance(read_dockercfg(data), Credentials) else None


def _one_token(rows: Mapping[str, Any]) -> str:
    """Return the token that all registries have, empty when there is no such token."""
    # Only of registries that have nothing else: other fields could name another credential.
    auths = {str(row["auth"]) if isinstance(row, dict) and set(row) == {"auth"} else "" for row in rows.values()}
    auth = auths.pop() if len(auths) == 1 else ""
    try:
        text = base64.b64decode(auth + "=" * (-len(auth) % 4), validate=True).decode()
    except ValueError:  # no base64, characters beyond ASCII, or no UTF-8 inside
        return ""
    username, colon, token = text.partition(":")
    return token if (username, colon) == (USERNAME, ":") else ""


CONTENT = "content"
"""Where the projection notes what `data` says; a Secret of the API server has no such field."""

KEPT_ANNOTATIONS = frozenset(
    {
        ANNOTATION_ACCOUNT,
        ANNOTATION_ACCOUNT_MISSPELT,
        ANNOTATION_ACCOUNT_NAME,
        ANNOTATION_ACCOUNT_UID,
        ANNOTATION_BINDING,
        ANNOTATION_TOKEN_SECRET,
    }
)
LONGEST_NAME_PREFIX = 200
OF_PULL_SECRETS = WatchScope(fields=f"type={DOCKERCFG_TYPE}")


class PullSecret(Struct, frozen=True):
    """A Secret of type dockercfg. Its annotations are claims: only the owner's UID ties it to an account."""

    key: ObjectKey
    uid: str
    version: str
    account: str  # the ServiceAccount that it names, empty when it names none
    owner_uid: str  # of the ServiceAccount that owns it
    binding: str
    legacy_token: str  # the legacy token Secret that it was made from, empty for a managed one
    created_at: str
    deleting: bool
    finalizers: tuple[str, ...]
    content: Content

    @classmethod
    def read(cls, secret: Object) -> PullSecret | None:
        """Read a Secret from the cache; None when it is no image pull secret of a ServiceAccount."""
        if secret.get("type") != DOCKERCFG_TYPE:
            return None
        annotations, metadata = annotations_of(secret), secret["metadata"]
        account = named_account(annotations)
        if not account:
            return None
        legacy_token = "" if is_managed(annotations) else annotations.get(ANNOTATION_TOKEN_SECRET, "")
        owner_uid = annotations.get(ANNOTATION_ACCOUNT_UID, "") if legacy_token else owner_uid_of(secret)
        return cls(
            key=ObjectKey.of(secret),
            uid=uid_of(secret),
            version=str(metadata.get("resourceVersion") or ""),
            account=account,
            owner_uid=owner_uid,
            binding=annotations.get(ANNOTATION_BINDING, ""),
            legacy_token=legacy_token,
            created_at=str(metadata.get("creationTimestamp") or ""),
            deleting=is_deleting(secret),
            finalizers=tuple(finalizers_of(secret)),
            content=msgspec.convert(secret.get(CONTENT) or msgspec.to_builtins(Empty()), Content),
        )

    @property
    def is_legacy(self) -> bool:
        return bool(self.legacy_token)

    @property
    def account_key(self) -> ObjectKey:
        return ObjectKey(self.key.namespace, self.account)


def is_managed(annotations: Mapping[str, str]) -> bool:
    return bool(annotations.get(ANNOTATION_ACCOUNT) or annotations.get(ANNOTATION_ACCOUNT_MISSPELT))


def account_annotations(account: str) -> dict[str, str]:
    return {ANNOTATION_ACCOUNT: account, ANNOTATION_ACCOUNT_MISSPELT: account}


def named_account(annotations: Mapping[str, str]) -> str:
    legacy = annotations.get(ANNOTATION_ACCOUNT_NAME, "") if annotations.get(ANNOTATION_TOKEN_SECRET) else ""
    return annotations.get(ANNOTATION_ACCOUNT) or annotations.get(ANNOTATION_ACCOUNT_MISSPELT) or legacy


def owner_uid_of(secret: Mapping[str, Any]) -> str:
    rows = (secret.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(row.get("uid")) for row in rows if row.get("kind") == "ServiceAccount"), "")


def default_secret_name(account: ObjectKey, account_uid: str) -> str:
    """Return the name of an account's pull secret: always the same, so a lost annotation leaks no Secret."""
    digest = hashlib.blake2b(account_uid.encode(), digest_size=5).hexdigest()
    return f"{account.name[:LONGEST_NAME_PREFIX].rstrip('.-')}-dockercfg-{digest}"


def project_pull_secret(secret: Object) -> Object | None:
    """Keep what controllers decide from and drop every token: a cache of Secrets holds no credential."""
    metadata = secret["metadata"]
    annotations = {name: text for name, text in annotations_of(secret).items() if name in KEPT_ANNOTATIONS}
    if not named_account(annotations):
        return None
    kept = ("creationTimestamp", "deletionTimestamp", "ownerReferences", "finalizers")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**{name: metadata[name] for name in kept if name in metadata}, "annotations": annotations},
        "type": secret.get("type"),
        CONTENT: None if not is_managed(annotations) else msgspec.to_builtins(_read_data(secret)),
    }


def _read_data(secret: Object) -> Content:
    try:
        return read_dockercfg(base64.b64decode((secret.get("data") or {}).get(DOCKERCFG_KEY, ""), validate=True))
    except ValueError:  # no base64
        return Corrupt()


def accounts_of(secret: Object) -> Iterable[str]:
    """Return the account that a pull secret names, as `namespace/name`: an index function."""
    found = PullSecret.read(secret)
    return () if found is None else (str(found.account_key),)
