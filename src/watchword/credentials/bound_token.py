"""Reads bound service account tokens: the one place that knows their claims."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from watchword.api.credential_report import token_id
from watchword.pki.errors import InvalidJwt
from watchword.pki.jwt import audiences_of, split_token

LATEST_SECONDS = 253_402_300_799  # the last second of the year 9999: a datetime holds no later one


class BoundToken(Struct, frozen=True):
    """What a token says of itself.

    No signature was checked: the claims decide only whether another token is requested. The server that honours the
    token verifies it at every use.
    """

    subject: str  # the user name of the ServiceAccount
    account_uid: str
    issued_at: datetime
    expires_at: datetime
    audiences: tuple[str, ...] = ()
    issuer: str = ""
    key_id: str = ""  # of the key that signed it
    secret_uid: str = ""  # of the Secret that it is bound to
    credential_id: str = ""  # as audit logs name it

    @property
    def holder(self) -> tuple[str, str]:
        """What the token was issued for; another one replaces it."""
        return self.subject, self.secret_uid

    @property
    def lifetime(self) -> timedelta:
        return self.expires_at - self.issued_at


def read_bound_token(text: str) -> BoundToken | None:
    """Return what a token says of itself, None when it is no JWT or has no lifetime."""
    try:
        header, claims = split_token(text)
    except InvalidJwt:
        return None
    issued, expires = _instant(claims.get("iat")), _instant(claims.get("exp"))
    if issued is None or expires is None or expires <= issued:
        return None
    private = _mapping(claims.get("kubernetes.io"))
    return BoundToken(
        subject=str(claims.get("sub") or ""),
        account_uid=str(_mapping(private.get("serviceaccount")).get("uid") or ""),
        issued_at=issued,
        expires_at=expires,
        audiences=audiences_of(claims),
        issuer=str(claims.get("iss") or ""),
        key_id=str(header.get("kid") or ""),
        secret_uid=str(_mapping(private.get("secret")).get("uid") or ""),
        credential_id=token_id(claims.get("jti")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _instant(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_SECONDS:
        return None
    return datetime.fromtimestamp(int(value), UTC)
