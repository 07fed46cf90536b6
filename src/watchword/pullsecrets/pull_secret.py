"""An image pull secret as controllers see it: whose it is and what state its token is in, without the token."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

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
)
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials.lifecycle import BoundToken
from watchword.pullsecrets.dockercfg import Content, Corrupt, Credentials, Empty, read_dockercfg
from watchword.runtime.informer import WatchScope

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
    """A Secret of type dockercfg. Its annotations are its writer's word: only the owner's UID ties it to an account."""

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
            content=read_content(secret.get(CONTENT)),
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
    """Return the ServiceAccount that a pull secret names, empty when it names none."""
    managed = annotations.get(ANNOTATION_ACCOUNT) or annotations.get(ANNOTATION_ACCOUNT_MISSPELT)
    if managed:
        return managed
    return annotations.get(ANNOTATION_ACCOUNT_NAME, "") if annotations.get(ANNOTATION_TOKEN_SECRET) else ""


def owner_uid_of(secret: Mapping[str, Any]) -> str:
    """Return the UID of the ServiceAccount that owns a Secret, empty when none does."""
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
        "metadata": {
            **{name: metadata[name] for name in kept if name in metadata},
            "annotations": annotations,
        },
        "type": secret.get("type"),
        CONTENT: None if not is_managed(annotations) else _content_facts(secret),
    }


def _content_facts(secret: Object) -> Object:
    try:
        data = base64.b64decode((secret.get("data") or {}).get(DOCKERCFG_KEY, ""), validate=True)
    except (binascii.Error, ValueError):
        return {"state": "corrupt"}
    content = read_dockercfg(data)
    if not isinstance(content, Credentials):
        return {"state": "empty" if isinstance(content, Empty) else "corrupt"}
    token = content.token
    return {
        "state": "filled",
        "registries": content.registries,
        "keyId": token.key_id,
        "subject": token.subject,
        "accountUid": token.account_uid,
        "secretUid": token.secret_uid,
        "audiences": token.audiences,
        "issuedAt": rfc3339(token.issued_at),
        "expiresAt": rfc3339(token.expires_at),
    }


def read_content(facts: Any) -> Content:
    if not isinstance(facts, dict) or facts.get("state") == "empty":
        return Empty()
    if facts.get("state") != "filled":
        return Corrupt()
    issued, expires = parse_rfc3339(facts["issuedAt"]), parse_rfc3339(facts["expiresAt"])
    if issued is None or expires is None:
        return Corrupt()
    token = BoundToken(
        key_id=facts["keyId"],
        subject=facts["subject"],
        account_uid=facts["accountUid"],
        secret_uid=facts["secretUid"],
        audiences=tuple(facts["audiences"]),
        issued_at=issued,
        expires_at=expires,
    )
    return Credentials(tuple(facts["registries"]), token)


def accounts_of(secret: Object) -> Iterable[str]:
    """Return the account that a pull secret names, as `namespace/name`: an index function."""
    found = PullSecret.read(secret)
    return () if found is None else (str(found.account_key),)
