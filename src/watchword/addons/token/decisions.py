"""Which token an add-on should have, which one its Secret holds, and what becomes of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from watchword.addons.token.options import DEFAULT_LIFETIME, MIN_RECOMMENDED_LIFETIME
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials.bound_token import BoundToken, read_bound_token
from watchword.credentials.driver import (
    CredentialAssessment,
    NewCredential,
    SecretData,
    ValidCredential,
    WantedCredential,
    honoured_rotation,
    rotation_data,
)
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import (
    Evidence,
    Held,
    Keep,
    Obstacle,
    Reason,
    Subject,
    Wanted,
    decide,
    find_renewal_time,
    is_usable,
)
from watchword.credentials.renewal import RENEWAL_WINDOW, choose_renewal_time

TOKEN = "token"  # noqa: S105 - the name of a key
EXPIRATION, ACCOUNT_UID, REFRESH_AT = "expiration", "service-account-uid", "refresh-at"


def read_token(held: SecretData) -> BoundToken | None:
    """Return what the token in a Secret says of itself, None when there is none that can be read."""
    return read_bound_token(held.get(TOKEN, b"").decode(errors="replace"))


def wanted_token(wanted: WantedCredential, token: BoundToken | None, *, asked: timedelta) -> Wanted:
    """Return the token that the add-on should have; its account is not compared while the hub does not name it."""
    uid = wanted.service_account_uid or ("" if token is None else token.account_uid)
    subject = Subject(wanted.subject.user, account_uid=uid)
    return Wanted(subject, seed=f"{wanted.cluster}/{wanted.addon}/{uid}", lifetime=asked, rotation=wanted.rotation)


def held_token(held: SecretData) -> Held | Reason:
    """Return the token that a Secret holds.

    The other keys of the Secret have to agree with the token: a Secret that was edited by hand is written again. OCM's
    agent stores the token alone; that one is kept, and renewed when the token itself says so.
    """
    token = read_token(held)
    if token is None:
        return Reason.TAMPERED if TOKEN in held else Reason.MISSING
    beside = {EXPIRATION: rfc3339(token.expires_at).encode(), ACCOUNT_UID: token.account_uid.encode()}
    refresh = None
    if any(name in held for name in (*beside, REFRESH_AT)):
        refresh = _stored_refresh(token, held)
        if refresh is None or any(held.get(name) != value for name, value in beside.items()):
            return Reason.TAMPERED
    return Held(
        Subject(token.subject, account_uid=token.account_uid),
        token.issued_at,
        token.expires_at,
        rotation=honoured_rotation(held),
        renew_at=refresh,
    )


def assess_token(
    wanted: WantedCredential,
    held: SecretData,
    evidence: TokenEvidence,
    *,
    now: datetime,
    asked: timedelta = DEFAULT_LIFETIME,
    obstacle: Obstacle | None = None,
) -> CredentialAssessment:
    """Decide what becomes of the token in a Secret; `asked` is the lifetime that is requested."""
    token, found = read_token(held), held_token(held)
    target = wanted_token(wanted, token, asked=asked)
    if token is None or isinstance(found, Reason):
        return CredentialAssessment(decide(target, found, Evidence(obstacle=obstacle), now=now), None)
    known = replace(evidence.about(token, seed=target.seed, requested=asked), obstacle=obstacle)
    decision, refresh = decide(target, found, known, now=now), find_renewal_time(target, found)
    if refresh is None or not is_usable(decision):
        return CredentialAssessment(decision, None)
    until = decision.until if isinstance(decision, Keep) else refresh
    message = describe_token(wanted, token, refresh, asked=asked)
    valid = ValidCredential(until, token.expires_at, message, token.issued_at, token.credential_id)
    return CredentialAssessment(decision, valid)


def validate_token_identity(wanted: WantedCredential, token: BoundToken) -> str:
    """Return why an issued token is not that of the add-on's present ServiceAccount; empty when it is."""
    user, uid = wanted.subject.user, wanted.service_account_uid
    if (token.subject, token.account_uid) == (user, uid):
        return ""
    return f"the token is for {token.subject} with UID {token.account_uid}, and {user} with UID {uid} was wanted"


def build_token_credential(
    wanted: WantedCredential, text: Sensitive[str], token: BoundToken, *, asked: timedelta = DEFAULT_LIFETIME
) -> NewCredential:
    seed = wanted_token(wanted, token, asked=asked).seed
    refresh = choose_renewal_time(token.issued_at, token.expires_at, seed=seed)
    data = {
        TOKEN: text.reveal().encode(),
        EXPIRATION: rfc3339(token.expires_at).encode(),
        ACCOUNT_UID: token.account_uid.encode(),
        REFRESH_AT: rfc3339(refresh).encode(),
        **rotation_data(wanted),
    }
    message = describe_token(wanted, token, refresh, asked=asked)
    return NewCredential(data, token.issued_at, token.expires_at, refresh, message, token.credential_id)


def describe_token(
    wanted: WantedCredential, token: BoundToken, refresh: datetime, *, asked: timedelta = DEFAULT_LIFETIME
) -> str:
    """Return the message of the condition: the same text for the same token at any time."""
    said = [f"the token of ServiceAccount {wanted.cluster}/{wanted.service_account}"]
    if token.lifetime < asked:
        said.append(f"(the hub shortened {_seconds(asked)} seconds to {_seconds(token.lifetime)})")
    if token.lifetime < MIN_RECOMMENDED_LIFETIME:
        said.append("(less than an hour is meant for tests)")
    validity = CredentialValidity(token.issued_at, token.expires_at, refresh)
    return f"{' '.join(said)} is {format_validity(validity)}"


def _stored_refresh(token: BoundToken, held: SecretData) -> datetime | None:
    """Return the instant chosen when the token was issued, None when what is noted is not plausible."""
    noted = parse_rfc3339(held.get(REFRESH_AT, b"").decode(errors="replace"))
    latest = token.issued_at + token.lifetime * RENEWAL_WINDOW.end
    return noted if noted is not None and token.issued_at <= noted <= latest else None


def _seconds(lifetime: timedelta) -> int:
    return int(lifetime.total_seconds())
