"""OIDC providers of EKS clusters: whose ServiceAccount tokens IAM trusts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import orjson
from joserfc.jwk import ECKey, RSAKey
from msgspec import Struct, field
from tests.emulators.aws.errors import AwsFault

from watchword.pki.errors import PkiError
from watchword.pki.jwt import TokenVerifier, audiences_of
from watchword.pki.keys import PublicKey

KeySetReader = Callable[[], Awaitable[bytes]]
"""Returns the JWKS that a cluster publishes."""


def parse_key_set(document: Mapping[str, Any]) -> tuple[PublicKey, ...]:
    """Return the EC and RSA keys of a JWKS; others are left out."""
    kinds: dict[str, type[ECKey | RSAKey]] = {"EC": ECKey, "RSA": RSAKey}
    rows = [row for row in document.get("keys", []) if row.get("kty") in kinds]
    return tuple(PublicKey.from_pem(kinds[row["kty"]].import_key(row).as_pem(private=False)) for row in rows)


class OidcProviders(Struct, frozen=True):
    """The providers of each account."""

    known: dict[tuple[str, str], list[KeySetReader]] = field(default_factory=dict)  # by account and provider

    def add(self, account: str, provider: str, read_keys: KeySetReader) -> None:
        """Let an account trust the tokens of a provider; `provider` is its issuer without https://."""
        self.known.setdefault((account, provider), []).append(read_keys)

    async def verify(self, account: str, token: str, now: datetime) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Return the provider and the claims of a token that the account trusts; `AwsFault` otherwise."""
        for (owner, provider), readers in self.known.items():
            if owner != account:
                continue
            keys = [key for read in readers for key in parse_key_set(orjson.loads(await read()))]
            try:
                claims = TokenVerifier(tuple(keys)).verify(token)
            except PkiError:
                continue
            begins, ends = claims.get("nbf", 0), claims.get("exp", 0)
            if claims.get("iss") != f"https://{provider}" or not begins <= now.timestamp() < ends:
                continue
            return provider, {"sub": (str(claims.get("sub", "")),), "aud": audiences_of(claims)}
        raise AwsFault("InvalidIdentityToken", "No OpenIDConnect provider in this account verifies the token")
