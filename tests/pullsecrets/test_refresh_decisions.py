"""When a pull secret gets a new token, decided from facts alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.reliability.credentials import CredentialKind
from bench.reliability.herd import refreshes_of_a_rotation, renewals_of_a_day
from watchword.api.meta import ObjectKey
from watchword.credentials.evidence import SignerTiming, SigningKeys, TokenEvidence
from watchword.credentials.lifecycle import BoundToken, Keep, Obtain, Reason, Retire
from watchword.pullsecrets.pull_secret import Content, Corrupt, Credentials, Empty, PullSecret
from watchword.pullsecrets.refresh import LATEST, choose_refresh_time, decide_refresh
from watchword.pullsecrets.settings import Settings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SETTINGS = Settings(registries=("a.example", "b.example:5000"))
TOKEN = BoundToken(
    key_id="key-1",
    subject="system:serviceaccount:team:builder",
    account_uid="account-uid",
    secret_uid="secret-uid",
    audiences=("https://kubernetes.default.svc",),
    issued_at=NOW,
    expires_at=NOW + 60 * MINUTE,
)
CREDENTIALS = Credentials(SETTINGS.registries, TOKEN)


def a_secret(content: Content, uid: str = "secret-uid") -> PullSecret:
    return PullSecret(
        key=ObjectKey("team", "builder-dockercfg-1"),
        uid=uid,
        version="1",
        account="builder",
        owner_uid="account-uid",
        binding="bound",
        legacy_token="",
        created_at="2026-03-01T12:00:00Z",
        deleting=False,
        finalizers=(),
        content=content,
    )


def keys_signing(*key_ids: str, published: tuple[str, ...] = ()) -> TokenEvidence:
    keys = SigningKeys(SignerTiming(spread=timedelta(0)), published=frozenset(published))
    for key_id in key_ids:
        keys.observe_token(key_id, now=NOW)
    keys.update_signing(now=NOW)
    return TokenEvidence(keys)


@pytest.mark.parametrize(
    ("content", "later", "expected"),
    [
        pytest.param(Corrupt(), 0 * MINUTE, Reason.TAMPERED, id="not what was written"),
        pytest.param(Empty(), 0 * MINUTE, Reason.MISSING, id="no token yet"),
        pytest.param(
            replace(CREDENTIALS, registries=("a.example",)),
            0 * MINUTE,
            Reason.PLACE_CHANGED,
            id="one missing",
        ),
        pytest.param(
            replace(CREDENTIALS, registries=("a.example", "b.example:5000", "c.example")),
            0 * MINUTE,
            Reason.PLACE_CHANGED,
            id="one too many",
        ),
        pytest.param(
            replace(CREDENTIALS, token=replace(TOKEN, subject="system:serviceaccount:team:admin")),
            0 * MINUTE,
            Reason.SUBJECT_CHANGED,
            id="token of another account",
        ),
        pytest.param(
            replace(CREDENTIALS, token=replace(TOKEN, secret_uid="earlier")),
            0 * MINUTE,
            Reason.SUBJECT_CHANGED,
            id="token bound to an earlier secret",
        ),
        pytest.param(CREDENTIALS, 60 * MINUTE, Reason.EXPIRED, id="expired to the second"),
        pytest.param(CREDENTIALS, 49 * MINUTE, Reason.RENEWAL_DUE, id="eleven minutes left"),
        pytest.param(
            replace(CREDENTIALS, token=replace(TOKEN, key_id="key-0")),
            0 * MINUTE,
            Reason.KEY_WITHDRAWN,
            id="its key signs no more",
        ),
        pytest.param(CREDENTIALS, 0 * MINUTE, None, id="new"),
        pytest.param(CREDENTIALS, 23 * MINUTE, None, id="before the window"),
    ],
)
def test_decide_refresh(content: Content, later: timedelta, expected: Reason | None) -> None:
    decision = decide_refresh(
        a_secret(content), SETTINGS, keys_signing("key-1"), account_uid="account-uid", now=NOW + later
    )

    assert decision == Obtain(expected) if expected is not None else isinstance(decision, Keep)


def test_pull_secret_of_a_deleted_account_is_retired() -> None:
    assert decide_refresh(a_secret(CREDENTIALS), SETTINGS, TokenEvidence(), account_uid=None, now=NOW) == Retire()


def test_token_for_another_audience_is_replaced_where_one_is_configured() -> None:
    settings = replace(SETTINGS, audiences=("registry",))

    decision = decide_refresh(a_secret(CREDENTIALS), settings, TokenEvidence(), account_uid="account-uid", now=NOW)

    assert decision == Obtain(Reason.AUDIENCE_CHANGED)


@given(life=st.integers(600, 30 * 86400), seed=st.uuids())
def test_refresh_leaves_eleven_minutes_or_half_of_a_short_life(life: int, seed: object) -> None:
    token = replace(TOKEN, expires_at=NOW + timedelta(seconds=life))

    refresh = choose_refresh_time(token, seed=str(seed))

    left = token.expires_at - refresh
    assert left >= min(LATEST, timedelta(seconds=life) / 2) - timedelta(microseconds=10)
    assert refresh - NOW >= timedelta(seconds=life) * 0.25 - timedelta(microseconds=10)


@pytest.mark.parametrize(
    ("secrets", "lifetime"),
    [
        pytest.param(10_000, timedelta(hours=1), id="ten thousand with the default lifetime"),
        pytest.param(300, timedelta(minutes=10), id="the shortest lifetime"),
        pytest.param(10_000, timedelta(hours=12), id="a long lifetime"),
    ],
)
def test_no_minute_of_a_day_has_more_than_three_times_the_mean_of_refreshes(secrets: int, lifetime: timedelta) -> None:
    day = renewals_of_a_day(CredentialKind.PULL_SECRET, secrets, lifetime)

    assert max(day) <= 3 * sum(day) / len(day)


def test_ten_thousand_secrets_are_refreshed_over_the_configured_time_after_a_rotation() -> None:
    rotation = refreshes_of_a_rotation(10_000, SignerTiming(spread=5 * MINUTE))

    assert sum(rotation) == 10_000
    assert max(rotation) <= 100
