"""The instance's own credentials: bearer tokens fixed when it starts."""

from __future__ import annotations

import hashlib
import hmac

from msgspec import Struct

from watchword.api.sensitive import Sensitive
from watchword.apiserver.authn.model import AuthenticatedIdentity
from watchword.apiserver.model import User


class StaticToken(Struct, frozen=True):
    """One token and its user."""

    token: Sensitive[str]
    user: User


class StaticTokenAuthenticator(Struct, frozen=True):
    """Compares in constant time with every token it knows."""

    entries: tuple[StaticToken, ...]

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return the user of the token, None when it is unknown."""
        shown = _digest(token)
        found: User | None = None
        for entry in self.entries:
            if hmac.compare_digest(_digest(entry.token.reveal()), shown):
                found = entry.user
        return None if found is None else AuthenticatedIdentity(found, audiences)


def _digest(token: str) -> bytes:
    # equal lengths, so that the comparison reveals nothing about the length of the real token
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
