"""Whether a token is the one that is wanted, until when it is good, and when to replace it."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from watchword.addons.token.options import DEFAULT_LIFETIME, MIN_RECOMMENDED_LIFETIME
from watchword.api.credential_report import CredentialValidity, format_validity, token_id
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.pki.errors import InvalidJwt
from watchword.pki.jwt import read_unverified_claims, service_account_uid
from watchword.registration.interface import (
    NewCredential,
    SecretData,
    ValidCredential,
    WantedCredential,
    rotation_data,
)
from watchword.runtime.renewal import choose_renewal_time

TOKEN = "token"  # noqa: S105 - the name of a key
EXPIRATION, ACCOUNT_UID, REFRESH_AT = "expiration", "service-account-uid", "refresh-at"

LATEST_REFRESH = 0.8  # of the issued lifetime
_FARTHEST = 253_402_300_799  # the last second that a datetime can hold


class TokenClaims(Struct, frozen=True):
    """What a token says of itself. It is not verified here: the hub that issued it does that at every use."""

    user: str
    account_uid: str
    issued_at: datetime
    expires_at: datetime
    credential_id: str = ""  # as audit logs name it

    @property
    def lifetime(self) -> timedelta:
        """The issued lifetime, whatever was requested."""
        return self.expires_at - self.issued_at


def read_token_claims(text: str) -> TokenClaims | None:
    """Read a ServiceAccount's token; None when it is not one, or has no lifetime."""
    try:
        claims = read_unverified_claims(text)
    except InvalidJwt:
        return None
    issued, expires = _instant(claims.get("iat")), _instant(claims.get("exp"))
    if issued is None or expires is None or expires <= issued:
        return None
    subject = str(claims.get("sub") or "")
    return TokenClaims(subject, service_account_uid(claims), issued, expires, token_id(claims.get("jti")))


def decide_token_validity(
    wanted: WantedCredential, held: SecretData, *, now: datetime, asked: timedelta = DEFAULT_LIFETIME
) -> ValidCredential | None:
    """Return until when the token held is good, or None when it must not be used.

    The other keys of the Secret have to agree with the token: a Secret that was edited by hand is written again. OCM's
    agent stores the token alone; that one is kept, and renewed when the token itself says so.
    """
    facts = read_token_claims(held.get(TOKEN, b"").decode(errors="replace"))
    if facts is None or now >= facts.expires_at or validate_token_identity(wanted, facts):
        return None
    beside = {EXPIRATION: rfc3339(facts.expires_at).encode(), ACCOUNT_UID: facts.account_uid.encode()}
    if not any(name in held for name in (*beside, REFRESH_AT)):
        refresh: datetime | None = choose_renewal_time(facts.issued_at, facts.expires_at, seed=_seed(wanted, facts))
    elif any(held.get(name) != value for name, value in beside.items()):
        return None
    else:
        refresh = _stored_refresh(facts, held)
    if refresh is None:
        return None
    message = describe_token(wanted, facts, refresh, asked=asked)
    return ValidCredential(refresh, facts.expires_at, message, facts.issued_at, facts.credential_id)


def validate_token_identity(wanted: WantedCredential, facts: TokenClaims) -> str:
    """Return why a token is not that of the add-on's present ServiceAccount; empty when it is."""
    if not hmac.compare_digest(facts.user.encode(), wanted.subject.user.encode()):
        return "the token is that of another ServiceAccount"
    if wanted.service_account_uid and not hmac.compare_digest(
        facts.account_uid.encode(), wanted.service_account_uid.encode()
    ):
        return (
            f"the ServiceAccount was made anew: the token is for UID {facts.account_uid}, "
            f"the present one is {wanted.service_account_uid}"
        )
    return ""


def build_token_credential(
    wanted: WantedCredential, token: Sensitive[str], facts: TokenClaims, *, asked: timedelta = DEFAULT_LIFETIME
) -> NewCredential:
    """Return what to store."""
    refresh = choose_renewal_time(facts.issued_at, facts.expires_at, seed=_seed(wanted, facts))
    data = {
        TOKEN: token.reveal().encode(),
        EXPIRATION: rfc3339(facts.expires_at).encode(),
        ACCOUNT_UID: facts.account_uid.encode(),
        REFRESH_AT: rfc3339(refresh).encode(),
        **rotation_data(wanted),
    }
    message = describe_token(wanted, facts, refresh, asked=asked)
    return NewCredential(data, facts.issued_at, facts.expires_at, refresh, message, facts.credential_id)


def describe_token(
    wanted: WantedCredential, facts: TokenClaims, refresh: datetime, *, asked: timedelta = DEFAULT_LIFETIME
) -> str:
    """Return the message of the condition: the same text for the same token at any time."""
    said = [f"the token of ServiceAccount {wanted.cluster}/{wanted.service_account}"]
    if facts.lifetime < asked:
        said.append(f"(the hub shortened {_seconds(asked)} seconds to {_seconds(facts.lifetime)})")
    if facts.lifetime < MIN_RECOMMENDED_LIFETIME:
        said.append("(less than an hour is meant for tests)")
    validity = CredentialValidity(facts.issued_at, facts.expires_at, refresh)
    return f"{' '.join(said)} is {format_validity(validity)}"


def _stored_refresh(facts: TokenClaims, held: SecretData) -> datetime | None:
    """Return the instant chosen when the token was issued, None when what is noted is not plausible."""
    noted = parse_rfc3339(held.get(REFRESH_AT, b"").decode(errors="replace"))
    latest = facts.issued_at + facts.lifetime * LATEST_REFRESH
    return noted if noted is not None and facts.issued_at <= noted <= latest else None


def _seed(wanted: WantedCredential, facts: TokenClaims) -> str:
    return f"{wanted.cluster}/{wanted.addon}/{facts.account_uid}"


def _instant(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _FARTHEST:
        return None
    return datetime.fromtimestamp(int(value), UTC)


def _seconds(lifetime: timedelta) -> int:
    return int(lifetime.total_seconds())
