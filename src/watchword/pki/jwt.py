"""JSON Web Tokens: service account tokens signed, verified, and read without belief."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from watchword.api.sensitive import Sensitive
from watchword.pki.errors import KeyRefused, TokenRefused
from watchword.pki.keys import KeyType, PrivateKey, PublicKey
from watchword.pki.unverified import split_token

_ALGORITHMS = {KeyType.EC: "ES256", KeyType.RSA: "RS256"}
_FAMILIES: dict[KeyType, type[ECKey | RSAKey]] = {KeyType.EC: ECKey, KeyType.RSA: RSAKey}


def algorithm_of(key: PublicKey) -> str:
    """Return the one algorithm a key is used with: the token does not get to choose."""
    if key.type not in _ALGORITHMS or (key.type == KeyType.EC and key.bits != 256):
        raise KeyRefused("tokens are signed with EC P-256 or RSA keys only")
    return _ALGORITHMS[key.type]


@dataclass(frozen=True)
class TokenSigner:
    """Signs many tokens with one key; its `kid` is the key's id as Kubernetes computes it."""

    key: PrivateKey

    def sign(self, claims: Mapping[str, Any]) -> Sensitive[str]:
        """Return a compact JWT."""
        algorithm = algorithm_of(self.key.public)
        header = {"alg": algorithm, "kid": self.key.public.key_id}
        return Sensitive(jws.serialize_compact(header, orjson.dumps(claims), self._native, algorithms=[algorithm]))

    @cached_property
    def _native(self) -> ECKey | RSAKey:
        return _FAMILIES[self.key.public.type].import_key(self.key.pem.reveal())


@dataclass(frozen=True)
class TokenVerifier:
    """Knows the keys whose tokens are believed. Each key has one algorithm: no token chooses."""

    keys: tuple[PublicKey, ...]

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that one of the keys signed; raise `TokenRefused` otherwise.

        Only the signature is judged here; `claims.check_claims` judges time, issuer and audience.
        """
        header, claims = split_token(token)
        wanted = header.get("kid")
        candidates = [row for row in self._natives if wanted is None or row[0] == wanted]
        if not any(_is_signed_by(token, native, algorithm) for _, native, algorithm in candidates):
            raise TokenRefused("no known key signed the token")
        return claims

    @cached_property
    def _natives(self) -> list[tuple[str, ECKey | RSAKey, str]]:
        return [(k.key_id, _FAMILIES[k.type].import_key(k.pem), algorithm_of(k)) for k in self.keys]


def sign(claims: Mapping[str, Any], key: PrivateKey) -> Sensitive[str]:
    """Sign one token; whoever signs many keeps a `TokenSigner`."""
    return TokenSigner(key).sign(claims)


def verify(token: str, keys: Sequence[PublicKey]) -> dict[str, Any]:
    """Verify one token; whoever verifies many keeps a `TokenVerifier`."""
    return TokenVerifier(tuple(keys)).verify(token)


def key_set_document(keys: Sequence[PublicKey]) -> dict[str, Any]:
    """Return the JWKS that `/openid/v1/jwks` serves."""
    return {"keys": [_public_jwk(key) for key in keys]}


def _public_jwk(key: PublicKey) -> dict[str, Any]:
    native = _FAMILIES[key.type].import_key(key.pem)
    return {
        **native.as_dict(private=False),
        "use": "sig",
        "kid": key.key_id,
        "alg": algorithm_of(key),
    }


def _is_signed_by(token: str, native: ECKey | RSAKey, algorithm: str) -> bool:
    try:
        jws.deserialize_compact(token.encode("ascii"), native, algorithms=[algorithm])
    except (JoseError, ValueError):
        return False
    return True
