"""Authenticates tokens in Secrets: valid while the Secret contains exactly this token."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of, uid_of
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.apiserver import errors
from watchword.apiserver.authn.cache import TtlCache
from watchword.apiserver.authn.errors import CredentialRefused
from watchword.apiserver.authn.model import (
    AuthenticatedIdentity,
    service_account_groups,
    service_account_name,
)
from watchword.apiserver.authn.service_accounts import (
    SIGNATURE_CACHE_TTL,
    TokenTrust,
    choose_audiences,
    verified_claims,
)
from watchword.apiserver.model import ApiError, Now, Registry, User

LEGACY_ISSUER = "kubernetes/serviceaccount"
CLAIM_PREFIX = "kubernetes.io/serviceaccount/"
LAST_USED_LABEL = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE_LABEL = "kubernetes.io/legacy-token-invalid-since"


class LegacyClaims(Struct, frozen=True):
    """What a token of this kind names."""

    namespace: str
    secret: str
    account: str
    uid: str

    @classmethod
    def read(cls, claims: Mapping[str, Any]) -> LegacyClaims:
        """Read verified claims; raise CredentialRefused when one is missing or they disagree."""
        values = {
            "namespace": claims.get(f"{CLAIM_PREFIX}namespace"),
            "secretName": claims.get(f"{CLAIM_PREFIX}secret.name"),
            "serviceAccountName": claims.get(f"{CLAIM_PREFIX}service-account.name"),
            "serviceAccountUID": claims.get(f"{CLAIM_PREFIX}service-account.uid"),
        }
        if not claims.get("sub"):
            raise CredentialRefused("sub claim is missing")
        for name, value in values.items():
            if not value or not isinstance(value, str):
                raise CredentialRefused(f"{name} claim is missing")
        read = cls(*(str(value) for value in values.values()))
        if claims["sub"] != service_account_name(read.namespace, read.account):
            raise CredentialRefused("sub claim is invalid")
        return read


class LegacyTokenAuthenticator(Struct, frozen=True):
    """Accepts a token that its Secret still contains, and records the day of its use there."""

    registry: Registry
    trust: TokenTrust  # with the legacy issuer
    now: Now
    signatures: TtlCache[dict[str, Any]] = field(default_factory=lambda: TtlCache(SIGNATURE_CACHE_TTL))

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return the account's user, None when another issuer made the token."""
        now = self.now()
        claims = verified_claims(token, self.trust, self.signatures, now=now)
        if claims is None:
            return None
        shared = choose_audiences(claims, asked=audiences, api_audiences=self.trust.api_audiences)
        named = LegacyClaims.read(claims)
        secret = self.registry.get(SECRETS, ObjectKey(named.namespace, named.secret))
        validate_token_secret(secret, token)
        validate_token_account(self.registry.get(SERVICE_ACCOUNTS, ObjectKey(named.namespace, named.account)), named)
        assert secret is not None
        await self._note_use(secret, now)
        if labels_of(secret).get(INVALID_SINCE_LABEL):
            raise CredentialRefused(_marked_invalid(named))
        name = service_account_name(named.namespace, named.account)
        return AuthenticatedIdentity(User(name, named.uid, service_account_groups(named.namespace)), shared)

    async def _note_use(self, secret: Object, now: datetime) -> None:
        today = f"{now:%Y-%m-%d}"
        if labels_of(secret).get(LAST_USED_LABEL) in {today, f"{now + timedelta(days=1):%Y-%m-%d}"}:
            return
        secret["metadata"].setdefault("labels", {})[LAST_USED_LABEL] = today
        with suppress(ApiError):  # another writer changed the Secret: the next use records the day
            await self.registry.update(SECRETS, secret)


def validate_token_secret(secret: Object | None, token: str) -> None:
    """Raise CredentialRefused unless the Secret exists and contains exactly this token."""
    if secret is None or is_deleting(secret):
        raise CredentialRefused("Token has been invalidated")
    try:
        stored = base64.b64decode((secret.get("data") or {}).get("token") or "", validate=True)
    except binascii.Error:
        stored = b""
    if not hmac.compare_digest(stored, token.encode("utf-8", "surrogatepass")):
        raise CredentialRefused("Token does not match server's copy")


def validate_token_account(account: Object | None, named: LegacyClaims) -> None:
    """Raise CredentialRefused unless the account is the one the token was made for."""
    if account is None:
        raise CredentialRefused(str(errors.not_found(SERVICE_ACCOUNTS, named.account)))
    if is_deleting(account):
        raise CredentialRefused(f"ServiceAccount {named.namespace}/{named.account} has been deleted")
    if uid_of(account) != named.uid:
        raise CredentialRefused(f"ServiceAccount UID ({uid_of(account)}) does not match claim ({named.uid})")


def _marked_invalid(named: LegacyClaims) -> str:
    return (
        f"the token in secret {named.namespace}/{named.secret} for service account {named.namespace}/{named.account} "
        f"has been marked invalid: request a token instead, or remove the label {INVALID_SINCE_LABEL} from the secret"
    )
