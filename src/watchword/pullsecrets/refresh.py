"""Which token a pull secret should hold, which one it holds, and what becomes of it."""

from datetime import datetime, timedelta

from watchword.api.names import service_account_user
from watchword.credentials import lifecycle
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import BoundToken
from watchword.pullsecrets.pull_secret import Credentials, Empty, PullSecret
from watchword.pullsecrets.settings import Settings

LATEST = timedelta(minutes=11)
"""A token that expires sooner than this is refreshed, unless its whole life is too short for the rule."""

LATEST_FRACTION, LEAST_LATEST_FRACTION = 0.8, 0.5


def decide_refresh(
    secret: PullSecret, settings: Settings, evidence: TokenEvidence, *, account_uid: str | None, now: datetime
) -> lifecycle.Decision:
    """Decide what becomes of the token in a pull secret; the account's UID is None when the account is gone."""
    content = secret.content
    if account_uid is None:
        return lifecycle.Retire()
    if not isinstance(content, Credentials):
        return lifecycle.Obtain(lifecycle.Reason.MISSING if isinstance(content, Empty) else lifecycle.Reason.TAMPERED)
    token = content.token
    wanted = lifecycle.Wanted(
        lifecycle.Subject(
            service_account_user(secret.key.namespace, secret.account), account_uid=account_uid, secret_uid=secret.uid
        ),
        seed=secret.uid,
        audiences=settings.audiences,
        lifetime=settings.lifetime,
        place=" ".join(settings.registries),
        window=choose_refresh_window(token),
    )
    held = lifecycle.Held(
        lifecycle.Subject(token.subject, account_uid=token.account_uid, secret_uid=token.secret_uid),
        token.issued_at,
        token.expires_at,
        audiences=token.audiences,
        place=" ".join(content.registries),
    )
    known = evidence.about(token, seed=secret.uid, requested=settings.lifetime)
    return lifecycle.decide(wanted, held, known, now=now)


def choose_refresh_time(token: BoundToken, *, seed: str) -> datetime:
    return lifecycle.choose_renewal_time(
        token.issued_at, token.expires_at, seed=seed, window=choose_refresh_window(token)
    )


def choose_refresh_window(token: BoundToken) -> lifecycle.RenewalWindow:
    """Choose the part of a token's life in which it is renewed: it ends 11 minutes before the token does.

    A life too short for the 11 minutes is renewed at half of it, or every new token would be due at once.
    """
    latest = min(LATEST_FRACTION, max(LEAST_LATEST_FRACTION, (token.lifetime - LATEST) / token.lifetime))
    return lifecycle.RenewalWindow(latest / 2, latest)  # wide, so that secrets filled together do not stay together
