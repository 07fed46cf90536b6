from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulators.aws.oidc import parse_key_set

from watchword.pki import jwt
from watchword.pki import jwt as unverified_jwt
from watchword.pki.errors import InvalidJwt, KeyRefused
from watchword.pki.keys import PrivateKey

EC, RSA, OTHER_KEY = PrivateKey.generate(), PrivateKey.generate_rsa(), PrivateKey.generate()
CLAIMS = {"iss": "https://hub", "sub": "system:serviceaccount:a:b", "exp": 2_000_000_000}
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("key", [pytest.param(EC, id="ES256"), pytest.param(RSA, id="RS256")])
def test_a_signed_token_is_verified_by_its_key_among_others(key: PrivateKey) -> None:
    token = jwt.TokenSigner(key).sign(CLAIMS)
    assert jwt.TokenVerifier((OTHER_KEY.public, key.public)).verify(token.reveal()) == CLAIMS
    assert unverified_jwt.read_unverified_claims(token.reveal()) == CLAIMS
    assert unverified_jwt.split_token(token.reveal())[0]["kid"] == key.public.key_id
    assert str(token) == "***"


def test_the_key_set_names_each_key_as_the_tokens_do() -> None:
    published = jwt.key_set_document([EC.public, RSA.public])["keys"]
    assert [(k["kid"], k["kty"], k["alg"]) for k in published] == [
        (EC.public.key_id, "EC", "ES256"),
        (RSA.public.key_id, "RSA", "RS256"),
    ]
    assert not any(private in k for k in published for private in ("d", "p", "q"))


def test_keys_of_a_published_key_set_verify_the_tokens() -> None:
    document = jwt.key_set_document([EC.public, RSA.public])
    document["keys"].append({"kty": "oct", "k": "AAAA"})

    assert parse_key_set(document) == (EC.public, RSA.public)


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _forged(header: dict[str, Any], secret: bytes = b"") -> str:
    signing_input = f"{_part(header)}.{_part(CLAIMS)}"
    signature = hmac.new(secret, signing_input.encode(), hashlib.sha256).digest()
    return f"{signing_input}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


GOOD = jwt.TokenSigner(EC).sign(CLAIMS).reveal()
HEADER, PAYLOAD, SIGNATURE = GOOD.split(".")


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="empty"),
        pytest.param("a.b", id="two parts"),
        pytest.param(f"{GOOD}.x", id="four parts"),
        pytest.param(f"{HEADER}.{PAYLOAD}.", id="no signature"),
        pytest.param(_forged({"alg": "none"}), id="algorithm none"),
        pytest.param(_forged({"alg": "HS256"}, RSA.public.pem), id="public key as shared secret"),
        pytest.param(_forged({"alg": "HS256", "kid": EC.public.key_id}, EC.public.pem), id="the same with a kid"),
        pytest.param(jwt.TokenSigner(OTHER_KEY).sign(CLAIMS).reveal(), id="an unknown key"),
        pytest.param(f"{HEADER}.{_part({**CLAIMS, 'sub': 'root'})}.{SIGNATURE}", id="other claims"),
        pytest.param(f"{GOOD}\n", id="trailing newline"),
        pytest.param(f"{_part(['alg'])}.{PAYLOAD}.{SIGNATURE}", id="header is a list"),
        pytest.param(f"{HEADER}.{_part('x')}.{SIGNATURE}", id="claims are a string"),
        pytest.param("é." + GOOD, id="not ascii"),
        pytest.param("a" * 40_000 + ".b.c", id="oversized"),
    ],
)
def test_a_token_no_known_key_signed_is_refused(token: str) -> None:
    with pytest.raises(InvalidJwt) as refusal:
        jwt.TokenVerifier((EC.public, RSA.public)).verify(token)
    assert PAYLOAD not in str(refusal.value)


@given(position=st.integers(0, len(GOOD) - 1), character=st.sampled_from("Aa0-_.= "))
@settings(max_examples=60)
def test_modified_token_never_verifies_with_other_claims(position: int, character: str) -> None:
    changed = GOOD[:position] + character + GOOD[position + 1 :]
    try:
        assert jwt.TokenVerifier((EC.public,)).verify(changed) == CLAIMS
    except InvalidJwt:
        return


def test_an_ed25519_key_signs_no_tokens() -> None:
    with pytest.raises(KeyRefused, match="P-256 or RSA"):
        jwt.TokenSigner(PrivateKey(ed25519.Ed25519PrivateKey.generate())).sign(CLAIMS)
