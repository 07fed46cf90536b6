"""Decides when a token is requested: what the hub holds is compared with what the account asks for."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.accounts import Account, AccountSecret
from watchword.api.meta import uid_of
from watchword.api.names import Annotation
from watchword.api.sensitive import Sensitive
from watchword.pki.errors import InvalidJwt
from watchword.pki.jwt import claimed_instant, service_account_uid, split_token
from watchword.runtime.renewal import choose_renewal_time

REVOKED = "Revoked"
KEY_PATIENCE = timedelta(minutes=5)


class RefreshReason(StrEnum):
    """Why a token is requested; a label of the metrics."""

    NONE = ""
    NO_TOKEN = "no-token"  # noqa: S105 - the hub holds none that can be read
    SERVICE_ACCOUNT_REPLACED = "service-account-replaced"
    REQUEST_CHANGED = "request-changed"  # validity or audiences
    AUTHORITY_CHANGED = "authority-changed"
    KEY_WITHDRAWN = "key-withdrawn"
    ROTATION_REQUESTED = "rotation-requested"
    RENEWAL_DUE = "renewal-due"


class HeldToken(Struct, frozen=True):
    """What is known of the token that the hub holds; the token itself is not kept."""

    secret_uid: str
    account_uid: str  # of the ServiceAccount, as the token says
    issued_at: datetime
    expires_at: datetime
    request: str
    ca_digest: str
    rotation_request: str
    key_id: str = ""  # of the key that signed it, as its header says

    @classmethod
    def read(cls, secret: AccountSecret) -> HeldToken | None:
        """Return what a Secret says, None when it holds no token that was recorded by an agent."""
        found = cls.read_claims(secret) if secret.is_intact else None
        if found is None:
            return None
        issued, expires = secret.issued_at or found.issued_at, secret.expires_at or found.expires_at
        return replace(found, issued_at=issued, expires_at=expires)

    @classmethod
    def read_claims(cls, secret: AccountSecret) -> HeldToken | None:
        """Return what the token itself says, unverified: what is recorded beside it may be about another one."""
        try:
            header, claims = split_token(secret.token.reveal())
        except InvalidJwt:
            return None
        issued, expires = claimed_instant(claims, "iat"), claimed_instant(claims, "exp")
        if issued is None or expires is None:
            return None
        return cls(
            secret_uid=uid_of(secret.object),
            account_uid=service_account_uid(claims),
            issued_at=issued,
            expires_at=expires,
            request=secret.annotations.get(Annotation.TOKEN_REQUEST, ""),
            ca_digest=digest(secret.ca),
            rotation_request=secret.annotations.get(Annotation.ROTATION_REQUEST, ""),
            key_id=str(header.get("kid") or ""),
        )


class ClusterTrust(Struct, frozen=True):
    """What the cluster says of itself now: the authority of its server, and the keys that it accepts tokens of."""

    ca: bytes
    key_ids: frozenset[str] = frozenset()  # empty: not known, and then no key is missed


class TokenDecision(Struct, frozen=True):
    """Whether a token is requested now, and until when the held one is kept."""

    request_because: RefreshReason = RefreshReason.NONE  # none: the held token is kept
    renew_at: datetime | None = None  # None: it is not renewed


def decide_token(
    account: Account, account_uid: str, held: HeldToken | None, trust: ClusterTrust, *, now: datetime
) -> TokenDecision:
    """Decide from facts alone whether the token at the hub is the one that the account asks for."""
    if held is None:
        return TokenDecision(RefreshReason.NO_TOKEN)
    reasons = {
        RefreshReason.SERVICE_ACCOUNT_REPLACED: held.account_uid != account_uid,
        RefreshReason.REQUEST_CHANGED: held.request != account.request,
        RefreshReason.AUTHORITY_CHANGED: held.ca_digest != digest(trust.ca),
        RefreshReason.KEY_WITHDRAWN: is_key_withdrawn(held, trust, now=now),
        RefreshReason.ROTATION_REQUESTED: held.rotation_request != account.rotation_request,
    }
    because = next((reason for reason, applies in reasons.items() if applies), RefreshReason.NONE)
    if because or not account.rotates:
        return TokenDecision(because)
    renew_at = choose_renewal_time(held.issued_at, held.expires_at, seed=account.uid)
    return TokenDecision(RefreshReason.RENEWAL_DUE if now >= renew_at else RefreshReason.NONE, renew_at)


def is_key_withdrawn(held: HeldToken, trust: ClusterTrust, *, now: datetime) -> bool:
    """Whether the cluster refuses the token because of its key.

    Servers of one cluster get another key one by one: a token that was issued a moment ago is given time.
    """
    known = not trust.key_ids or not held.key_id or held.key_id in trust.key_ids
    return not known and now - held.issued_at >= KEY_PATIENCE


def read_account_uid(token: Sensitive[str]) -> str:
    """Return the UID of the ServiceAccount that a token is for, empty when it cannot be read."""
    try:
        return service_account_uid(split_token(token.reveal())[1])
    except InvalidJwt:
        return ""


def digest(ca: bytes) -> str:
    """Return a digest of an authority, so that a change is noticed."""
    return hashlib.sha256(ca).hexdigest()
