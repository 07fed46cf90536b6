"""Token signatures by joserfc; imported only when a token is signed or verified."""

from __future__ import annotations

from typing import Any, TypeAlias

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from watchword.pki.keys import KeyType

NativeKey: TypeAlias = ECKey | RSAKey

_FAMILIES: dict[KeyType, type[NativeKey]] = {KeyType.EC: ECKey, KeyType.RSA: RSAKey}


def native_key(kind: KeyType, pem: bytes) -> NativeKey:
    """Return a key in the library's own form; parsing a key costs more than signing with it."""
    return _FAMILIES[kind].import_key(pem)


def signed(header: dict[str, Any], payload: bytes, key: NativeKey) -> str:
    return jws.serialize_compact(header, payload, key, algorithms=[header["alg"]])


def is_signed_by(token: str, key: NativeKey, algorithm: str) -> bool:
    try:
        jws.deserialize_compact(token.encode("ascii"), key, algorithms=[algorithm])
    except (JoseError, ValueError):
        return False
    return True


def public_jwk(kind: KeyType, pem: bytes) -> dict[str, Any]:
    """Return the public key as a JWK without its `use`."""
    return dict(native_key(kind, pem).as_dict(private=False))


def public_pem(jwk: dict[str, Any]) -> bytes:
    """Return the public key of a JWK as PEM; `JoseError` or `KeyError` when it is not an EC or RSA key."""
    return _FAMILIES[KeyType(jwk["kty"])].import_key(jwk).as_pem(private=False)
