"""The validity of a credential is read from every form of a condition's message."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from watchword.api.credential_validity import CredentialValidity, parse_validity_message

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
            id="the shipped agent's",
        ),
        pytest.param(
            "the token of ServiceAccount c/a is valid until 2026-03-01T00:00:00Z, from 2026-01-01T00:00:00Z on, to be "
            "renewed at 2026-02-01T00:00:00Z",
            CredentialValidity(A, C, B),
            id="a token of ours",
        ),
        pytest.param(
            "token refreshed, expires at 2026-03-01T00:00:00Z", CredentialValidity(None, C), id="a token of the shipped"
        ),
        pytest.param("good: 2026-03-01T00:00:00Z", CredentialValidity(None, C), id="an instant without a word"),
    ],
)
def test_read_validity(message: str, expected: CredentialValidity | None) -> None:
    assert parse_validity_message(message) == expected
