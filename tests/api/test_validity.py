"""The message of a condition carries the validity of a credential in one format, and OCM's are read, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.api.credential_report import CredentialValidity, format_validity, parse_validity

A, B, C = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("waiting for the hub", None, id="no instant"),
        pytest.param("renewed at 2026-13-99T00:00:00Z", None, id="an instant that is none"),
        pytest.param("valid from 2026-01-01T00:00:00Z", None, id="a beginning without an end"),
        pytest.param(
            "client certificate valid from 2026-01-01T00:00:00Z until 2026-03-01T00:00:00Z, to be renewed at "
            "2026-02-01T00:00:00Z",
            CredentialValidity(A, C, B),
            id="ours",
        ),
        pytest.param(
            "client certificate rotated starting from 2026-01-01 00:00:00 +0000 UTC to 2026-03-01 00:00:00 +0000 UTC",
            CredentialValidity(A, C),
            id="an agent of OCM",
        ),
        pytest.param(
            "the token of ServiceAccount c/a (less than an hour is meant for tests) is valid from "
            "2026-01-01T00:00:00Z until 2026-03-01T00:00:00Z, to be renewed at 2026-02-01T00:00:00Z",
            CredentialValidity(A, C, B),
            id="a token of ours",
        ),
        pytest.param(
            "token refreshed, expires at 2026-03-01T00:00:00Z", CredentialValidity(None, C), id="a token of OCM"
        ),
        pytest.param(
            "one valid from 2026-01-01T00:00:00Z until 2026-03-01T00:00:00Z; two valid from 2026-01-01T00:00:00Z until "
            "2026-02-01T00:00:00Z",
            CredentialValidity(A, B),
            id="of several, the first to expire",
        ),
        pytest.param("a voucher valid at present, without expiry", CredentialValidity(), id="without expiry"),
        pytest.param(
            "a voucher valid from 2026-01-01T00:00:00Z, without expiry",
            CredentialValidity(A),
            id="no expiry",
        ),
        pytest.param("good: 2026-03-01T00:00:00Z", CredentialValidity(None, C), id="an instant without a word"),
    ],
)
def test_parse_validity(message: str, expected: CredentialValidity | None) -> None:
    assert parse_validity(message) == expected


SECONDS = st.integers(0, 200 * 365 * 24 * 3600)
INSTANTS = SECONDS.map(lambda seconds: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
VALIDITIES = st.builds(CredentialValidity, st.none() | INSTANTS, st.none() | INSTANTS, st.none() | INSTANTS)
TEXTS = st.text(st.characters(exclude_characters=";0123456789"))


@given(text=TEXTS, validity=VALIDITIES)
def test_what_is_written_after_any_text_is_read_back(text: str, validity: CredentialValidity) -> None:
    assert parse_validity(f"{text} {format_validity(validity)}") == validity


@given(validities=st.lists(VALIDITIES, min_size=1, max_size=4))
def test_of_several_the_one_that_expires_first_is_read(validities: list[CredentialValidity]) -> None:
    found = parse_validity("; ".join(f"credential {format_validity(validity)}" for validity in validities))

    ends = [validity.expires for validity in validities if validity.expires is not None]
    assert found in validities
    assert found.expires == min(ends, default=None)
