"""Client certificates: the common name is the user, the organisations are its groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from watchword.api.credential_use import CREDENTIAL_ID, certificate_id
from watchword.apiserver.authn.cache import TtlCache
from watchword.apiserver.authn.errors import CredentialRefused
from watchword.apiserver.model import Now, User
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.chains import verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.usages import Usage

LONGEST_CHAIN = 10
SIGNATURE_CACHE_TTL = timedelta(days=30)  # a signature stays good; dates and the bundle are compared each time


class VerifiedClient(Struct, frozen=True):
    """A chain whose signatures are good, and the user that its leaf names; None when it names none."""

    chain: tuple[Certificate, ...]
    user: User | None


class CertificateAuthenticator(Struct, frozen=True):
    """Checks each request: dates and the trusted bundle may have changed since the handshake.

    Only verified signatures are cached, and only for the bundle that they were verified with.
    """

    trusted: Callable[[], Sequence[Certificate]]  # the client CA bundle of this instant, for rotation
    now: Now
    verified: TtlCache[VerifiedClient] = field(default_factory=lambda: TtlCache(SIGNATURE_CACHE_TTL, 1024))

    def identify(self, shown: Sequence[bytes]) -> User | None:
        """Return the user of a DER chain (leaf first); None without a common name; raise CredentialRefused."""
        if len(shown) > LONGEST_CHAIN:
            raise CredentialRefused("the certificate chain is too long")
        now = self.now()
        try:
            client = self._verified(shown, now)
        except PkiError as refusal:
            raise CredentialRefused(f"verifying certificate failed: {refusal}") from refusal
        if not all(member.is_current(now) for member in client.chain):
            raise CredentialRefused("verifying certificate failed: it has expired or is not yet valid")
        return client.user

    def _verified(self, shown: Sequence[bytes], now: datetime) -> VerifiedClient:
        roots = self.trusted()
        key = tuple(shown), tuple(root.der for root in roots)
        known = self.verified.get(key, now=now)
        if known is not None:
            return known
        leaf, *others = (parse_certificate(der) for der in shown)
        chain = verify_chain(leaf, roots, now=now, usage=Usage.CLIENT_AUTH, intermediates=others)
        return self.verified.put(key, VerifiedClient(chain, user_from_certificate(chain[0])), now=now)


def user_from_certificate(leaf: Certificate) -> User | None:
    """Return the user that a verified certificate names, None when it names none."""
    if not leaf.common_name:
        return None
    extra = {CREDENTIAL_ID: (certificate_id(leaf.der),)}
    return User(leaf.common_name, groups=leaf.organisations, extra=extra)
