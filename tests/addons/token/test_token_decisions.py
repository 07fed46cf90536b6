"""Which token is good, until when, and when it is replaced."""

from __future__ import annotations

import base64
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.addons.token.agent import (
    EXPIRATION,
    REFRESH_AT,
    TOKEN,
    assess_token,
    build_token_credential,
    describe_token,
)
from watchword.api.credential_report import CredentialValidity, parse_validity
from watchword.api.sensitive import Sensitive
from watchword.api.validation import LONGEST_SPAN
from watchword.credentials.driver import CredentialSubject, SecretData, WantedCredential
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import RENEWAL_WINDOW, BoundToken, choose_renewal_time, read_bound_token

NOW = datetime(2026, 3, 1, tzinfo=UTC)
USER = "system:serviceaccount:c1:c1-a-agent"
DAY = timedelta(days=1)


def a_token(*, user: str = USER, uid: str = "u1", issued: datetime = NOW, life: timedelta = DAY, **more: Any) -> str:
    claims = {
        "sub": user,
        "iat": int(issued.timestamp()),
        "exp": int((issued + life).timestamp()),
        "kubernetes.io": {"serviceaccount": {"uid": uid}},
        **more,
    }
    parts = [base64.urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=").decode() for part in ({"alg": "x"}, claims)]
    return ".".join([*parts, "c2ln"])


def wanted(*, uid: str = "u1") -> WantedCredential:
    return WantedCredential(
        "c1",
        CredentialSubject(USER),
        addon="a",
        service_account="c1-a-agent",
        service_account_uid=uid,
    )


def held(token: str = "", **changes: bytes | None) -> dict[str, bytes]:
    token = token or a_token()
    facts = read_bound_token(token)
    assert facts is not None
    data = {**build_token_credential(wanted(), Sensitive(token), facts).data}
    for name, value in changes.items():
        key = name.replace("_", "-")
        data = {k: v for k, v in data.items() if k != key} | ({key: value} if value is not None else {})
    return data


@pytest.mark.parametrize(
    ("data", "uid", "age"),
    [
        pytest.param({}, "u1", 0.0, id="nothing held"),
        pytest.param({TOKEN: b"no jwt"}, "u1", 0.0, id="no token"),
        pytest.param(held(a_token(user="system:serviceaccount:c1:other")), "u1", 0.0, id="of another account"),
        pytest.param(held(), "u2", 0.0, id="of an account that was made anew"),
        pytest.param(held(), "u1", 1.0, id="over to the second"),
        pytest.param(held(expiration=None), "u1", 0.0, id="expiration removed by hand"),
        pytest.param(held(expiration=b"2030-01-01T00:00:00Z"), "u1", 0.0, id="expiration edited by hand"),
        pytest.param(held(service_account_uid=b"u9"), "u1", 0.0, id="UID edited by hand"),
        pytest.param(held(refresh_at=b"2030-01-01T00:00:00Z"), "u1", 0.0, id="refresh put off by hand"),
        pytest.param(held(refresh_at=b"soon"), "u1", 0.0, id="refresh unreadable"),
    ],
)
def test_token_that_is_no_good(data: SecretData, uid: str, age: float) -> None:
    assert assess_token(wanted(uid=uid), data, TokenEvidence(), now=NOW + DAY * age).valid is None


@pytest.mark.parametrize(
    ("uid", "age"),
    [
        pytest.param("u1", 0.0, id="fresh"),
        pytest.param("u1", 0.999, id="old but alive"),
        pytest.param("", 0.5, id="while the hub does not say which account there is"),
    ],
)
def test_token_that_is_good(uid: str, age: float) -> None:
    kept = assess_token(wanted(uid=uid), held(), TokenEvidence(), now=NOW + DAY * age, asked=DAY).valid

    assert kept is not None
    assert kept.expires_at == NOW + DAY
    assert kept.message.startswith(
        "the token of ServiceAccount c1/c1-a-agent is valid from 2026-03-01T00:00:00Z until 2026-03-02T00:00:00Z, "
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("a.b", id="two parts"),
        pytest.param(a_token(exp=0), id="no expiry"),
        pytest.param(a_token(exp=True), id="expiry that is no number"),
        pytest.param(a_token(exp=10**18), id="expiry beyond every calendar"),
        pytest.param(a_token(life=timedelta(0)), id="no life"),
        pytest.param(a_token(life=-DAY), id="over before it began"),
        pytest.param(a_token(iat=None), id="no build_token_credential"),
    ],
)
def test_text_that_is_no_token(text: str) -> None:
    assert read_bound_token(text) is None


def test_centuries_can_be_added_to_the_last_expiry_of_a_calendar() -> None:
    token = read_bound_token(a_token(exp=253_402_300_799))

    assert token is not None
    assert token.expires_at == datetime(9000, 1, 1, tzinfo=UTC) < token.expires_at + LONGEST_SPAN


def test_token_that_another_agent_stored_alone_is_kept() -> None:
    kept = assess_token(wanted(), {TOKEN: held()[TOKEN]}, TokenEvidence(), now=NOW).valid

    assert kept is not None
    assert kept.renew_at is not None
    assert NOW + DAY * 0.4 <= kept.renew_at <= NOW + DAY * 0.8
    assert kept.expires_at == NOW + DAY


@pytest.mark.parametrize(
    ("asked", "issued", "expected"),
    [
        pytest.param(DAY, DAY, "", id="as asked"),
        pytest.param(365 * DAY, DAY, " (the hub shortened 31536000 seconds to 86400)", id="shortened"),
        pytest.param(
            timedelta(minutes=10), timedelta(minutes=10), " (less than an hour is meant for tests)", id="for tests"
        ),
    ],
)
def test_message_contains_what_was_issued(asked: timedelta, issued: timedelta, expected: str) -> None:
    facts = BoundToken(USER, "u1", NOW, NOW + issued)

    said = describe_token(wanted(), facts, NOW, asked=asked)

    assert said.startswith(f"the token of ServiceAccount c1/c1-a-agent{expected} is valid from ")
    assert parse_validity(said) == CredentialValidity(NOW, NOW + issued, NOW)


@pytest.mark.parametrize("hours", [1, 6, 24])
def test_ten_thousand_tokens_of_one_second_do_not_come_back_together(hours: int) -> None:
    life = timedelta(hours=hours)

    instants = [choose_renewal_time(NOW, NOW + life, seed=f"c{n}/a/u{n}") for n in range(10_000)]
    by_minute = Counter(int((instant - NOW).total_seconds() // 60) for instant in instants)

    mean = len(instants) / (life * (RENEWAL_WINDOW.end - RENEWAL_WINDOW.start) / timedelta(minutes=1))
    assert max(by_minute.values()) <= 3 * mean


@settings(max_examples=60)
@given(life=st.integers(600, 2**32), offset=st.integers(0, 10**9))
def test_what_is_issued_is_recognised_and_refreshed_in_time(life: int, offset: int) -> None:
    issued = NOW + timedelta(seconds=offset)
    token = a_token(issued=issued, life=timedelta(seconds=life))
    facts = read_bound_token(token)
    assert facts is not None

    stored = build_token_credential(wanted(), Sensitive(token), facts)
    kept = assess_token(wanted(), stored.data, TokenEvidence(), now=issued).valid

    assert kept is not None
    assert kept.renew_at is not None
    assert issued + facts.lifetime * 0.39 < kept.renew_at <= issued + facts.lifetime * 0.8
    assert stored.data[EXPIRATION].decode() == facts.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert stored.data[REFRESH_AT].decode() == kept.renew_at.strftime("%Y-%m-%dT%H:%M:%SZ")
