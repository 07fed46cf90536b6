"""Decides when a token is requested: what the hub holds is compared with what the account asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from watchword.api.accounts import Account, AccountSecret
from watchword.api.meta import uid_of
from watchword.api.names import Annotation
from watchword.pki.errors import InvalidJwt
from watchword.pki.unverified_jwt import read_unverified_claims
from watchword.runtime.renewal import choose_renewal_time

REVOKED = "Revoked"


@dataclass(frozen=True, slots=True)
class HeldToken:
    """What is known of the token that the hub holds; the token itself is not kept."""

    secret_uid: str
    account_uid: str  # of the ServiceAccount, as the token says
    issued_at: datetime
    expires_at: datetime
    request: str
    ca_digest: str
    rotation_request: str

    @classmethod
    def read(cls, secret: AccountSecret) -> HeldToken | None:
        """Return what a Secret says, None when it holds no token that was written by an agent."""
        try:
            claims = read_unverified_claims(secret.token.reveal())
        except InvalidJwt:
            return None
        issued, expires = _instant(claims.get("iat")), _instant(claims.get("exp"))
        if issued is None or expires is None or not secret.is_intact:
            return None
        return cls(
            secret_uid=uid_of(secret.object),
            account_uid=_account_uid(claims),
            issued_at=secret.issued_at or issued,
            expires_at=secret.expires_at or expires,
            request=secret.annotations.get(Annotation.TOKEN_REQUEST, ""),
            ca_digest=digest(secret.ca),
            rotation_request=secret.annotations.get(Annotation.ROTATION_REQUEST, ""),
        )


@dataclass(frozen=True, slots=True)
class TokenDecision:
    """Whether a token is requested now, and until when the held one is kept."""

    request_because: str = ""  # empty: the held token is kept
    renew_at: datetime | None = None  # None: it is not renewed


def decide_token(
    account: Account, account_uid: str, held: HeldToken | None, ca: bytes, *, now: datetime
) -> TokenDecision:
    """Decide from facts alone whether the token at the hub is the one that the account asks for."""
    if held is None:
        return TokenDecision("the hub holds no token that can be read")
    reasons = {
        "the token is of another service account": held.account_uid != account_uid,
        "validity or audiences have changed": held.request != account.request,
        "the certificate authority has changed": held.ca_digest != digest(ca),
        "a rotation was requested": held.rotation_request != account.rotation_request,
    }
    because = next((reason for reason, applies in reasons.items() if applies), "")
    if because or not account.rotates:
        return TokenDecision(because)
    renew_at = choose_renewal_time(held.issued_at, held.expires_at, seed=account.uid)
    return TokenDecision("its time to be renewed has come" if now >= renew_at else "", renew_at)


def digest(ca: bytes) -> str:
    """Return a digest of an authority, so that a change is noticed."""
    return hashlib.sha256(ca).hexdigest()


def _account_uid(claims: Mapping[str, Any]) -> str:
    bound = claims.get("kubernetes.io")
    account = bound.get("serviceaccount") if isinstance(bound, dict) else None
    return str(account.get("uid") or "") if isinstance(account, dict) else ""


def _instant(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        return None
