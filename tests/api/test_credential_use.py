"""Clauses that name the credential issued and the one in use survive among other text, and nothing else is read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from watchword.api.credential_report import (
    CredentialUse,
    CredentialValidity,
    certificate_id,
    decide_use,
    format_issued,
    format_used,
    format_validity,
    parse_issued,
    parse_used,
    parse_validity,
    token_id,
)
from watchword.testing.virtual_time import EPOCH

CERTIFICATE = certificate_id(b"der")
TOKEN = token_id("6f2b7a9e-0d5c-4a53-9d3f-1f2c3d4e5f60")
VALIDITY = CredentialValidity(EPOCH, EPOCH + timedelta(days=1), EPOCH + timedelta(hours=18))


@pytest.mark.parametrize("used", [CERTIFICATE, TOKEN, ""])
def test_both_clauses_are_read_back_beside_the_validity(used: str) -> None:
    message = f"client certificate {format_validity(VALIDITY)}{format_issued(CERTIFICATE)}{format_used(used)}"

    assert parse_validity(message) == VALIDITY
    assert parse_issued(message) == {CERTIFICATE}
    assert parse_used(message) == used


def test_several_credentials_in_one_message_are_all_read() -> None:
    words = [f"the token is {format_validity(VALIDITY)}{format_issued(each)}" for each in (TOKEN, CERTIFICATE)]

    assert parse_issued("; ".join(words)) == {TOKEN, CERTIFICATE}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("JTI=", id="no id"),
        pytest.param("JTI=a b", id="a space"),
        pytest.param("JTI=a; uses credential JTI=b", id="a second clause"),
        pytest.param("Bearer abc", id="a credential itself"),
        pytest.param("X509SHA256=" + "0" * 200, id="too long"),
    ],
)
def test_text_that_is_no_id_is_never_written(text: str) -> None:
    assert format_issued(text) == format_used(text) == ""


@pytest.mark.parametrize("jti", [None, 7, "", "two words", "a;b"])
def test_token_without_a_usable_id_has_none(jti: object) -> None:
    assert token_id(jti) == ""


@pytest.mark.parametrize(
    ("issued", "used", "expected"),
    [
        pytest.param(set(), TOKEN, CredentialUse.UNKNOWN, id="the issued one is not known"),
        pytest.param({TOKEN}, "", CredentialUse.UNKNOWN, id="the one in use is not known"),
        pytest.param({TOKEN}, CERTIFICATE, CredentialUse.PREVIOUS, id="another one is in use"),
        pytest.param({TOKEN, CERTIFICATE}, CERTIFICATE, CredentialUse.CURRENT, id="one of several is in use"),
    ],
)
def test_decide_use(issued: set[str], used: str, expected: CredentialUse) -> None:
    assert decide_use(issued, used) is expected
