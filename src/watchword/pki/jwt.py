"""Signs and verifies JSON Web Tokens of service accounts, and detached signatures of bootstrap tokens."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct

from watchword.api.sensitive import Sensitive
from watchword.pki.errors import InvalidJwt, KeyRefused
from watchword.pki.keys import KeyType, PrivateKey, PublicKey

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, RSAKey

MAXIMUM_TOKEN_BYTES = 32 * 1024
_ALGORITHMS = {KeyType.EC: "ES256", KeyType.RSA: "RS256"}


def read_unverified_claims(token: str) -> dict[str, Any]:
    return split_token(token)[1]


def split_token(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims, unverified; raise `InvalidJwt` when the text is not a JWT."""
    if len(token) > MAXIMUM_TOKEN_BYTES or not token.isascii():
        raise InvalidJwt("the text is not a JWT: too long or not ASCII")
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise InvalidJwt("the text is not a JWT: it does not have three parts")
    return _json(parts[0]), _json(parts[1])


def _json(part: str) -> dict[str, Any]:
    try:
        padded = part + "=" * (-len(part) % 4)
        decoded = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as cause:
        raise InvalidJwt("the text is not a JWT: a part of it is not base64url JSON") from cause
    if not isinstance(decoded, dict):
        raise InvalidJwt("the text is not a JWT: a part of it is not a JSON object")
    return decoded


def algorithm_of(key: PublicKey) -> str:
    """Return the one algorithm a key is used with; the token's header does not choose it."""
    if key.type not in _ALGORITHMS or (key.type == KeyType.EC and key.bits != 256):
        raise KeyRefused("tokens are signed with EC P-256 or RSA keys only")
    return _ALGORITHMS[key.type]


class TokenSigner(Struct, frozen=True, dict=True):
    """Signs many tokens with one key; its `kid` is the key's id as Kubernetes computes it.

    A chain of certificates (DER, the key's own first) is put into the header for verifiers that trust a CA.
    """

    key: PrivateKey
    certificates: tuple[bytes, ...] = ()

    def sign(self, claims: Mapping[str, Any]) -> Sensitive[str]:
        from joserfc import jws

        header: dict[str, Any] = {"typ": "JWT"} if self.certificates else {}
        header |= {"alg": algorithm_of(self.key.public), "kid": self.key.public.key_id}
        if self.certificates:
            header["x5c"] = [base64.b64encode(der).decode() for der in self.certificates]
        return Sensitive(jws.serialize_compact(header, orjson.dumps(claims), self._native, algorithms=[header["alg"]]))

    @cached_property
    def _native(self) -> ECKey | RSAKey:
        return _native_key(self.key.public.type, self.key.pem.reveal())


class TokenVerifier(Struct, frozen=True, dict=True):
    """Verifies tokens against trusted keys; each key has one algorithm, whatever the token's header says."""

    keys: tuple[PublicKey, ...]

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that one of the keys signed; raise `InvalidJwt` otherwise.

        Only the signature is checked, not time, issuer and audience.
        """
        header, claims = split_token(token)
        wanted = header.get("kid")
        candidates = [row for row in self._natives if wanted is None or row[0] == wanted]
        if not any(_is_signed_by(token, native, algorithm) for _, native, algorithm in candidates):
            raise InvalidJwt("no known key signed the token")
        return claims

    @cached_property
    def _natives(self) -> list[tuple[str, ECKey | RSAKey, str]]:
        return [(k.key_id, _native_key(k.type, k.pem), algorithm_of(k)) for k in self.keys]


def _native_key(kind: KeyType, key: bytes) -> ECKey | RSAKey:
    """Return a key (PEM) in the library's own form; callers keep it: reading an RSA key takes 100 ms."""
    from joserfc.jwk import ECKey, RSAKey

    return (ECKey if kind is KeyType.EC else RSAKey).import_key(key)


def _is_signed_by(token: str, key: ECKey | RSAKey, algorithm: str) -> bool:
    from joserfc import jws
    from joserfc.errors import JoseError

    try:
        jws.deserialize_compact(token.encode("ascii"), key, algorithms=[algorithm])
    except (JoseError, ValueError):
        return False
    return True


def key_set_document(keys: Sequence[PublicKey]) -> dict[str, Any]:
    names = ({"use": "sig", "kid": key.key_id, "alg": algorithm_of(key)} for key in keys)
    jwks = (_native_key(key.type, key.pem).as_dict(private=False) for key in keys)
    return {"keys": [{**jwk, **named} for jwk, named in zip(jwks, names, strict=True)]}


def audiences_of(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return `aud` as a tuple, whether the token holds one string or a list."""
    value = claims.get("aud")
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return ()


def sign_detached(content: bytes, *, key_id: str, secret: Sensitive[str]) -> str:
    """Return `header..signature`, byte for byte as Kubernetes writes it."""
    # Not made by a JOSE library: verifiers compare strings, so key order and spacing are part of the format,
    # and the 16-byte key is shorter than such libraries accept.
    header = _base64url(orjson.dumps({"alg": "HS256", "kid": key_id}))
    signing_input = b"%s.%s" % (header, _base64url(content))
    signature = hmac.digest(secret.reveal().encode(), signing_input, "sha256")
    return f"{header.decode()}..{_base64url(signature).decode()}"


def is_detached_signature(signature: str, content: bytes, *, key_id: str, secret: Sensitive[str]) -> bool:
    """Whether this is the one signature that the token gives to the content.

    The expected text is rebuilt and compared as a whole; the given header is not evaluated.
    """
    expected = sign_detached(content, key_id=key_id, secret=secret)
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
