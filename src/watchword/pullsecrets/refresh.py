"""Whether a pull secret needs a new token, and when to look again: decided from facts alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from watchword.pullsecrets.dockercfg import Credentials, Empty, TokenFacts
from watchword.pullsecrets.pull_secret import PullSecret
from watchword.pullsecrets.settings import Settings
from watchword.pullsecrets.signing_keys import SigningKeys
from watchword.runtime.renewal import RenewalWindow, choose_renewal_time

LATEST = timedelta(minutes=11)
"""A token that expires sooner than this is refreshed, unless its whole life is too short for the rule."""

LATEST_FRACTION, LEAST_LATEST_FRACTION = 0.8, 0.5


class RefreshReason(StrEnum):
    """Why a pull secret gets a new token; also a label of metrics."""

    EMPTY = "empty"
    CORRUPT = "corrupt"
    WRONG_REGISTRIES = "wrong_registries"
    WRONG_AUDIENCE = "wrong_audience"
    WRONG_BINDING = "wrong_binding"
    EXPIRED = "expired"
    RENEWAL = "renewal"
    SIGNER_CHANGED = "signer_changed"


class RefreshDecision(Struct, frozen=True):
    """Refresh now for a reason, or look again after a delay."""

    reason: RefreshReason | None
    recheck_in: timedelta = timedelta(0)


def decide_refresh(
    secret: PullSecret, settings: Settings, keys: SigningKeys, *, account_uid: str, now: datetime
) -> RefreshDecision:
    """Decide what becomes of the token in a pull secret."""
    if not isinstance(secret.content, Credentials):
        return RefreshDecision(RefreshReason.EMPTY if isinstance(secret.content, Empty) else RefreshReason.CORRUPT)
    wrong = _find_difference(secret, secret.content, settings, account_uid)
    if wrong is not None:
        return RefreshDecision(wrong)
    token = secret.content.token
    renewal = choose_refresh_time(token, seed=secret.uid)
    replacement = keys.replacement_time(token.key_id, seed=secret.uid, now=now)
    if token.expires_at <= now:
        return RefreshDecision(RefreshReason.EXPIRED)
    if replacement is not None and replacement <= now:
        return RefreshDecision(RefreshReason.SIGNER_CHANGED)
    if renewal <= now:
        return RefreshDecision(RefreshReason.RENEWAL)
    return RefreshDecision(None, min(renewal, replacement or renewal) - now)


def choose_refresh_time(token: TokenFacts, *, seed: str) -> datetime:
    """Choose the instant of renewal: spread over a part of the token's life, and 11 minutes before its end.

    A life too short for the 11 minutes is renewed at half of it, or every new token would be due at once.
    """
    life = token.expires_at - token.issued_at
    if life <= timedelta(0):
        return token.issued_at
    latest = min(LATEST_FRACTION, max(LEAST_LATEST_FRACTION, (life - LATEST) / life))
    window = RenewalWindow(latest / 2, latest)  # wide, so that secrets filled together do not stay together
    return choose_renewal_time(token.issued_at, token.expires_at, seed=seed, window=window)


def _find_difference(
    secret: PullSecret, content: Credentials, settings: Settings, account_uid: str
) -> RefreshReason | None:
    """Rebuild what the token should say and compare; an audience is compared only where one is configured."""
    token = content.token
    if content.registries != settings.registries:
        return RefreshReason.WRONG_REGISTRIES
    subject = f"system:serviceaccount:{secret.key.namespace}:{secret.account}"
    if (token.subject, token.account_uid, token.secret_uid) != (subject, account_uid, secret.uid):
        return RefreshReason.WRONG_BINDING
    if settings.audiences and sorted(token.audiences) != sorted(settings.audiences):
        return RefreshReason.WRONG_AUDIENCE
    return None
