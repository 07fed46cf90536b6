"""ManagedServiceAccount and its Secret, as hub and agents read and write them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from watchword.api import meta
from watchword.api.conditions import Condition
from watchword.api.crds.accounts import DEFAULT_VALIDITY, LONGEST_AUDIENCE, LONGEST_NAME, MOST_AUDIENCES
from watchword.api.credential_report import CredentialValidity
from watchword.api.limits import LONGEST_TOKEN_LIFETIME, SHORTEST_TOKEN_LIFETIME
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, OCM_MANAGED_SERVICE_ACCOUNTS
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.api.time import parse_rfc3339
from watchword.api.validation import (
    DurationError,
    format_duration,
    parse_duration,
    parse_seconds,
    validate_server_address,
)

ADDON_NAME = "managed-serviceaccount"
ACCOUNTS_GATE = "ManagedServiceAccount"  # the feature gate of hubs that serve accounts from the start
ACCOUNT_KINDS = (MANAGED_SERVICE_ACCOUNTS, OCM_MANAGED_SERVICE_ACCOUNTS)
"""The two groups that declare accounts; where both declare one, the first decides."""

SELECTOR = f"{Label.MANAGED_ACCOUNT}=true"


class Account(HiddenFields, frozen=True):
    """A ManagedServiceAccount, read from its object; `objection` says why no token can be requested for it."""

    hidden = ("object",)

    key: meta.ObjectKey
    uid: str
    audiences: tuple[str, ...]
    rotates: bool
    validity: timedelta
    ttl: timedelta | None
    deleting: bool
    rotation_request: str
    objection: str
    object: meta.Object

    @classmethod
    def read(cls, obj: meta.Object) -> Account:
        """Read the object; absent fields take the schema's defaults, and what cannot be read is an objection."""
        spec, rotation = meta.mapping_at(obj, "spec"), meta.mapping_at(obj, "spec", "rotation")
        text = str(rotation.get("validity") or DEFAULT_VALIDITY)
        validity, objection = _read_validity(text)
        audiences = tuple(dict.fromkeys(str(name) for name in meta.list_at(spec, "audiences")))
        return cls(
            key=meta.ObjectKey.of(obj),
            uid=meta.uid_of(obj),
            audiences=audiences,
            rotates=rotation.get("enabled") is not False or resource_of(obj) is OCM_MANAGED_SERVICE_ACCOUNTS,
            validity=validity,
            ttl=parse_seconds(spec.get("ttlSecondsAfterCreation")),
            deleting=meta.is_deleting(obj),
            rotation_request=meta.annotations_of(obj).get(Annotation.ROTATION_REQUEST, ""),
            objection=objection or _objection(audiences, meta.ObjectKey.of(obj).name),
            object=obj,
        )

    @property
    def resource(self) -> meta.Resource:
        return resource_of(self.object)

    @property
    def request(self) -> str:
        """What a token is requested with, as one text: a token of another request is replaced."""
        return f"{format_duration(self.validity)} {orjson.dumps(sorted(self.audiences)).decode()}"

    def expires_at(self) -> datetime | None:
        created = parse_rfc3339(str(self.object["metadata"].get("creationTimestamp") or ""))
        return created + self.ttl if self.ttl is not None and created is not None else None


def resource_of(obj: meta.Object) -> meta.Resource:
    group = str(obj.get("apiVersion") or "").partition("/")[0]
    ocm = group == OCM_MANAGED_SERVICE_ACCOUNTS.group
    return OCM_MANAGED_SERVICE_ACCOUNTS if ocm else MANAGED_SERVICE_ACCOUNTS


def superseded_by(account: Account) -> Condition:
    """Return the condition of an object whose account is declared by this one too."""
    message = f"{account.resource.group_resource} {account.key} declares the same account; its settings are used"
    return Condition.true(ConditionType.SUPERSEDED, "DeclaredTwice", message)


def choose_declaration(found: Sequence[meta.Object | None]) -> Account | None:
    """Return which of the objects of one name decides: the first that is not being deleted; None without any."""
    accounts = [Account.read(obj) for obj in found if obj is not None]
    living = [account for account in accounts if not account.deleting]
    return next(iter(living or accounts), None)


def _read_validity(text: str) -> tuple[timedelta, str]:
    try:
        validity = parse_duration(text)
    except DurationError as error:
        return timedelta(0), f"spec.rotation.validity cannot be read: {error}"
    if validity < SHORTEST_TOKEN_LIFETIME:
        return validity, f"spec.rotation.validity is {text}, and a token is valid for at least 10m: ask for 10m or more"
    if validity > LONGEST_TOKEN_LIFETIME:
        return validity, f"spec.rotation.validity is {text}, which is longer than can be requested: ask for less"
    return validity, ""


def _objection(audiences: Sequence[str], name: str) -> str:
    if len(audiences) > MOST_AUDIENCES:
        return f"spec.audiences has {len(audiences)} entries: name {MOST_AUDIENCES} at most"
    if any(not name or len(name) > LONGEST_AUDIENCE for name in audiences):
        return f"spec.audiences has an entry that is empty or longer than {LONGEST_AUDIENCE} characters: correct it"
    if len(name) > LONGEST_NAME:
        return f"the name is longer than {LONGEST_NAME} characters: choose a shorter one"
    return ""


class AccountSecret(HiddenFields, frozen=True):
    """The Secret of an account at the hub: its token, and what is known of it."""

    hidden = ("object",)

    key: meta.ObjectKey
    token: Sensitive[str]
    ca: bytes
    annotations: Mapping[str, str]
    object: meta.Object

    @classmethod
    def read(cls, obj: meta.Object) -> AccountSecret:
        """Read the object; what cannot be decoded is empty."""
        data = meta.mapping_at(obj, "data")
        token = _decode(data.get("token")).decode("ascii", errors="replace").strip()
        return cls(meta.ObjectKey.of(obj), Sensitive(token), _decode(data.get("ca.crt")), meta.annotations_of(obj), obj)

    @property
    def expires_at(self) -> datetime | None:
        return parse_rfc3339(self.annotations.get(Annotation.TOKEN_EXPIRY, ""))

    @property
    def issued_at(self) -> datetime | None:
        return parse_rfc3339(self.annotations.get(Annotation.TOKEN_ISSUED, ""))

    @property
    def server(self) -> str:
        """The address of the API server that honours the token; empty when the cluster reported no valid one."""
        said = self.annotations.get(Annotation.TOKEN_SERVER, "")
        return "" if validate_server_address(said) else said

    @property
    def is_intact(self) -> bool:
        written = self.annotations.get(Annotation.TOKEN_DIGEST)
        return bool(self.token) and written == content_digest(self.token, self.ca)


def content_digest(token: Sensitive[str], ca: bytes) -> str:
    """Return a digest by which a changed Secret is noticed; it lies in the Secret itself."""
    return hashlib.sha256(token.reveal().encode() + b"\n" + ca).hexdigest()


def is_owned_by(secret: meta.Object, accounts: Sequence[meta.Object | None]) -> bool:
    """Whether a Secret belongs to one of these ManagedServiceAccounts, by UID."""
    uids = {meta.uid_of(account) for account in accounts if account is not None} - {""}
    return any(str(owner.get("uid")) in uids for owner in meta.rows_at(secret, "metadata", "ownerReferences"))


def lost_its_owner(secret: meta.Object) -> bool:
    """Whether a Secret that an agent wrote for an account has no owner any more; one of something else has another."""
    is_unowned = not secret["metadata"].get("ownerReferences")
    return is_unowned and Label.MANAGED_ACCOUNT in meta.labels_of(secret) and AccountSecret.read(secret).is_intact


def copy_name(cluster: str, account: str) -> str:
    """Return the name of a cluster's Secret in a cluster-set namespace.

    A cluster's name has no dot, so two pairs never share a name.
    """
    return f"{cluster}.{account}"


def split_copy_name(name: str) -> tuple[str, str]:
    cluster, _, account = name.partition(".")
    return cluster, account


def _decode(value: Any) -> bytes:
    try:
        return base64.b64decode(value or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def read_token_validity(obj: meta.Object) -> CredentialValidity | None:
    """Return the validity of an account's token as its status reports it; None before there is one."""
    status, secret = meta.mapping_at(obj, "status"), meta.mapping_at(obj, "status", "tokenSecretRef")
    issued, expires, renews = (
        parse_rfc3339(str(text or ""))
        for text in (
            secret.get("lastRefreshTimestamp"),
            status.get("expirationTimestamp"),
            status.get("nextRenewalTimestamp"),
        )
    )
    return None if expires is None else CredentialValidity(issued, expires, renews)
