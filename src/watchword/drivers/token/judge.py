"""Whether a token is the one that is wanted, until when it is good, and when to replace it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.drivers.interface import Issued, Kept, SecretData, Wanted, rotation_mark
from watchword.pki.errors import TokenRefused
from watchword.pki.unverified import read_unverified_claims
from watchword.runtime.timers import FIRST, STEADY, choose_renewal

TOKEN = "token"  # noqa: S105 - the name of a key
EXPIRATION, ACCOUNT_UID, REFRESH_AT = "expiration", "service-account-uid", "refresh-at"

ADVISED_LIFE = timedelta(hours=1)
LATEST_REFRESH = 0.8  # of the issued life
_FARTHEST = 253_402_300_799  # the last second that a datetime can hold


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """What a token says of itself. Nobody here can verify it: the hub that issued it does, at every use."""

    user: str
    account_uid: str
    issued_at: datetime
    expires_at: datetime

    @property
    def life(self) -> timedelta:
        """The life that was issued, whatever was asked for."""
        return self.expires_at - self.issued_at


def read_token(text: str) -> TokenFacts | None:
    """Read a ServiceAccount's token; None when it is not one, or has no life."""
    try:
        claims = read_unverified_claims(text)
    except TokenRefused:
        return None
    issued, expires = _instant(claims.get("iat")), _instant(claims.get("exp"))
    if issued is None or expires is None or expires <= issued:
        return None
    return TokenFacts(str(claims.get("sub") or ""), _account_uid(claims), issued, expires)


def judge_held(wanted: Wanted, held: SecretData, *, now: datetime) -> Kept | None:
    """Return until when the token held is good, or None when it is no good.

    What stands beside the token has to agree with it: a Secret that was edited by hand is made anew.
    """
    facts = read_token(held.get(TOKEN, b"").decode(errors="replace"))
    if facts is None or now >= facts.expires_at or judge_identity(wanted, facts):
        return None
    refresh = _recall_refresh(facts, held)
    beside = {EXPIRATION: rfc3339(facts.expires_at).encode(), ACCOUNT_UID: facts.account_uid.encode()}
    if refresh is None or any(held.get(name) != value for name, value in beside.items()):
        return None
    return Kept(refresh, facts.expires_at, tell_life(wanted, facts, refresh))


def judge_identity(wanted: Wanted, facts: TokenFacts) -> str:
    """Say why a token is not that of the add-on's present ServiceAccount; empty when it is."""
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


def issue(wanted: Wanted, token: Sensitive[str], facts: TokenFacts, *, held: SecretData) -> Issued:
    """Return what to store. The first token of a lineage is replaced early, so that neighbours drift apart."""
    previous = read_token(held.get(TOKEN, b"").decode(errors="replace"))
    window = FIRST if previous is None else STEADY
    refresh = choose_renewal(facts.issued_at, facts.expires_at, seed=_seed(wanted, facts), window=window)
    data = {
        TOKEN: token.reveal().encode(),
        EXPIRATION: rfc3339(facts.expires_at).encode(),
        ACCOUNT_UID: facts.account_uid.encode(),
        REFRESH_AT: rfc3339(refresh).encode(),
        **rotation_mark(wanted),
    }
    return Issued(data, facts.issued_at, facts.expires_at, refresh, tell_life(wanted, facts, refresh))


def tell_life(wanted: Wanted, facts: TokenFacts, refresh: datetime) -> str:
    """Say also since when it is good and when it is replaced, for those who only see the condition."""
    return f"{describe(wanted, facts)}, from {rfc3339(facts.issued_at)} on, to be renewed at {rfc3339(refresh)}"


def describe(wanted: Wanted, facts: TokenFacts) -> str:
    """Say what was issued and until when: the same words for the same token, whenever they are asked for."""
    said = [f"the token of ServiceAccount {wanted.cluster}/{wanted.service_account}"]
    said.append(f"is valid until {rfc3339(facts.expires_at)}")
    asked = wanted.lifetime
    if asked is not None and facts.life < asked:
        said.append(f"(the hub shortened {_seconds(asked)} seconds to {_seconds(facts.life)})")
    if facts.life < ADVISED_LIFE:
        said.append("(less than an hour is meant for tests)")
    return " ".join(said)


def _recall_refresh(facts: TokenFacts, held: SecretData) -> datetime | None:
    """Return the instant chosen when the token was issued, None when what is noted is not plausible."""
    noted = parse_rfc3339(held.get(REFRESH_AT, b"").decode(errors="replace"))
    latest = facts.issued_at + facts.life * LATEST_REFRESH
    return noted if noted is not None and facts.issued_at <= noted <= latest else None


def _seed(wanted: Wanted, facts: TokenFacts) -> str:
    return f"{wanted.cluster}/{wanted.addon}/{facts.account_uid}"


def _account_uid(claims: Mapping[str, Any]) -> str:
    bound = claims.get("kubernetes.io")
    account = bound.get("serviceaccount") if isinstance(bound, dict) else None
    return str(account.get("uid") or "") if isinstance(account, dict) else ""


def _instant(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _FARTHEST:
        return None
    return datetime.fromtimestamp(int(value), UTC)


def _seconds(life: timedelta) -> int:
    return int(life.total_seconds())
