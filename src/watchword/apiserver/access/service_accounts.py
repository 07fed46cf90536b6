"""ServiceAccount tokens: signed once, and good only while what they name still exists."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from msgspec import Struct, ValidationError, convert, field

from watchword.api.credential_report import CREDENTIAL_ID
from watchword.api.expiring_map import ExpiringMap
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, labels_of, uid_of
from watchword.api.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339
from watchword.apiserver.access.chain import (
    AuthenticatedIdentity,
    CredentialRefused,
    service_account_groups,
    service_account_name,
)
from watchword.apiserver.access.rules import quoted_list
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import ApiError, Now, Registry, User, decode_base64
from watchword.pki.errors import InvalidJwt
from watchword.pki.jwt import TokenVerifier, audiences_of, read_unverified_claims
from watchword.pki.keys import PrivateKey, PublicKey

LEEWAY = timedelta(seconds=60)
SIGNATURE_CACHE_SECONDS = 10.0

_EXTRA = "authentication.kubernetes.io/"
_INVALIDATED = "service account token has been invalidated"
LEGACY_ISSUER = "kubernetes/serviceaccount"
CLAIM_PREFIX = "kubernetes.io/serviceaccount/"
LAST_USED_LABEL = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE_LABEL = "kubernetes.io/legacy-token-invalid-since"


class TokenKeys(Struct, frozen=True, dict=True):
    """One key signs; it and those before it (or yet to come) verify."""

    signing: PrivateKey
    others: tuple[PublicKey, ...] = ()

    @property
    def public(self) -> tuple[PublicKey, ...]:
        return tuple(dict.fromkeys((self.signing.public, *self.others)))

    @cached_property  # reading an RSA key takes 100 ms
    def verifier(self) -> TokenVerifier:
        return TokenVerifier(self.public)


class TokenTrust(Struct, frozen=True):
    """How tokens of one issuer are verified."""

    issuer: str
    api_audiences: tuple[str, ...]
    keys: TokenKeys
    now: Now
    signatures: ExpiringMap[bytes, dict[str, Any]] = field(default_factory=lambda: ExpiringMap(4096))

    def read(self, token: str, asked: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
        """Return the claims of a token and the requested audiences that it has; None when another issuer made it.

        Raises CredentialRefused when the signature is bad, or when it has no such audience.
        """
        claims = self._verified(token)
        if claims is None:
            return None
        offered = audiences_of(claims) or self.api_audiences
        shared = tuple(audience for audience in offered if audience in asked)
        if not shared:
            raise CredentialRefused(
                f"token audiences {quoted_list(offered)} is invalid for the target audiences {quoted_list(asked)}"
            )
        return claims, shared

    def _verified(self, token: str) -> dict[str, Any] | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        now = self.now().timestamp()
        known = self.signatures.get(digest, now=now)
        if known is not None:
            return known
        try:
            if read_unverified_claims(token).get("iss") != self.issuer:
                return None
        except InvalidJwt:
            return None
        try:
            claims = self.keys.verifier.verify(token)
        except InvalidJwt as refusal:
            raise CredentialRefused(f"invalid signature: {refusal}") from refusal
        self.signatures.put(digest, claims, now=now, seconds=SIGNATURE_CACHE_SECONDS)
        return claims


class ServiceAccountTokenAuthenticator(Struct, frozen=True):
    """Trusts tokens of its issuer; existence and UIDs are looked up each time, so revocation is immediate."""

    registry: Registry
    trust: TokenTrust

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return the account's user, None when another issuer made the token."""
        read = self.trust.read(token, audiences)
        if read is None:
            return None
        verified, shared = read
        now = self.trust.now()
        try:
            claims = convert(verified, BoundTokenClaims)
        except ValidationError as cause:
            raise CredentialRefused("service account token claims could not be validated") from cause
        claims.validate_times(now.timestamp())
        self._require_account(claims.private, now)
        self._require_bound_objects(claims.private, now)
        return AuthenticatedIdentity(claims.user(), shared)

    def _require_account(self, bound: PrivateClaims, now: datetime) -> None:
        account = self.registry.get(SERVICE_ACCOUNTS, ObjectKey(bound.namespace, bound.serviceaccount.name))
        if account is None:
            raise CredentialRefused(str(errors.not_found(SERVICE_ACCOUNTS, bound.serviceaccount.name)))
        if uid_of(account) != bound.serviceaccount.uid:
            raise CredentialRefused(
                f"service account UID ({uid_of(account)}) does not match claim ({bound.serviceaccount.uid})"
            )
        if is_long_deleted(account, now=now):
            raise CredentialRefused(f"service account {bound.namespace}/{bound.serviceaccount.name} has been deleted")

    def _require_bound_objects(self, bound: PrivateClaims, now: datetime) -> None:
        if bound.secret is not None:
            self._require(SECRETS, bound.namespace, bound.secret, now)
        if bound.pod is not None:
            self._require(PODS, bound.namespace, bound.pod, now)
        elif bound.node is not None:  # a pod's node is information, not a condition
            self._require(NODES, "", bound.node, now)

    def _require(self, resource: Resource, namespace: str, ref: BoundObjectRef, now: datetime) -> None:
        found = self.registry.get(resource, ObjectKey(namespace, ref.name))
        if found is None or is_long_deleted(found, now=now):
            raise CredentialRefused(_INVALIDATED)
        if uid_of(found) != ref.uid:
            kind = resource.kind.lower()
            raise CredentialRefused(
                f"{kind} UID ({uid_of(found)}) does not match service account {kind} ref claim ({ref.uid})"
            )


class BoundObjectRef(Struct, frozen=True):
    """An object a token names: a name taken again has another UID."""

    name: str = ""
    uid: str = ""


class PrivateClaims(Struct, frozen=True):
    """The account and the objects that the token is bound to."""

    namespace: str = ""
    serviceaccount: BoundObjectRef = BoundObjectRef()
    pod: BoundObjectRef | None = None
    secret: BoundObjectRef | None = None
    node: BoundObjectRef | None = None


class BoundTokenClaims(Struct, frozen=True, rename={"private": "kubernetes.io"}):
    """The claims of a bound token that are looked at."""

    exp: float | None = None
    nbf: float | None = None
    iat: float | None = None
    jti: str = ""
    private: PrivateClaims = PrivateClaims()

    def validate_times(self, now: float) -> None:
        """Raise CredentialRefused outside of the token's validity, with a minute of leeway on both sides."""
        slack = LEEWAY.total_seconds()
        if self.nbf is not None and now + slack < self.nbf:
            raise CredentialRefused("service account token is not valid yet")
        if self.exp is not None and now - slack > self.exp:
            raise CredentialRefused("service account token has expired")
        if self.iat is not None and now + slack < self.iat:
            raise CredentialRefused("service account token is issued in the future")

    def user(self) -> User:
        extra: dict[str, tuple[str, ...]] = {}
        if self.jti:
            extra[CREDENTIAL_ID] = (f"JTI={self.jti}",)
        bound = self.private
        for kind, ref in (("node", bound.node), ("pod", bound.pod)):
            if ref is not None:
                extra[f"{_EXTRA}{kind}-name"] = (ref.name,)
                if ref.uid:
                    extra[f"{_EXTRA}{kind}-uid"] = (ref.uid,)
        name = service_account_name(bound.namespace, bound.serviceaccount.name)
        return User(name, bound.serviceaccount.uid, service_account_groups(bound.namespace), extra)


def is_long_deleted(obj: Object, *, now: datetime) -> bool:
    """Whether deletion began more than the leeway ago; what is just going away still counts."""
    text = obj["metadata"].get("deletionTimestamp")
    if not text:
        return False
    since = parse_rfc3339(str(text))
    return since is None or since < now - LEEWAY


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

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return the account's user, None when another issuer made the token."""
        read = self.trust.read(token, audiences)
        if read is None:
            return None
        claims, shared = read
        named = LegacyClaims.read(claims)
        secret = self._require_secret(named, token)
        validate_token_account(self.registry.get(SERVICE_ACCOUNTS, ObjectKey(named.namespace, named.account)), named)
        await self._note_use(secret, self.trust.now())
        if labels_of(secret).get(INVALID_SINCE_LABEL):
            raise CredentialRefused(
                f"the token in secret {named.namespace}/{named.secret} for service account "
                f"{named.namespace}/{named.account} has been marked invalid: request a token instead, or remove the "
                f"label {INVALID_SINCE_LABEL} from the secret"
            )
        name = service_account_name(named.namespace, named.account)
        return AuthenticatedIdentity(User(name, named.uid, service_account_groups(named.namespace)), shared)

    def _require_secret(self, named: LegacyClaims, token: str) -> Object:
        secret = self.registry.get(SECRETS, ObjectKey(named.namespace, named.secret))
        if secret is None or is_deleting(secret):
            raise CredentialRefused("Token has been invalidated")
        stored = decode_base64((secret.get("data") or {}).get("token"))
        if not hmac.compare_digest(stored, token.encode("utf-8", "surrogatepass")):
            raise CredentialRefused("Token does not match server's copy")
        return secret

    async def _note_use(self, secret: Object, now: datetime) -> None:
        today = f"{now:%Y-%m-%d}"
        if labels_of(secret).get(LAST_USED_LABEL) in {today, f"{now + timedelta(days=1):%Y-%m-%d}"}:
            return
        secret["metadata"].setdefault("labels", {})[LAST_USED_LABEL] = today
        with suppress(ApiError):  # another writer changed the Secret: the next use records the day
            await self.registry.update(SECRETS, secret)


def validate_token_account(account: Object | None, named: LegacyClaims) -> None:
    """Raise CredentialRefused unless the account is the one the token was made for."""
    if account is None:
        raise CredentialRefused(str(errors.not_found(SERVICE_ACCOUNTS, named.account)))
    if is_deleting(account):
        raise CredentialRefused(f"ServiceAccount {named.namespace}/{named.account} has been deleted")
    if uid_of(account) != named.uid:
        raise CredentialRefused(f"ServiceAccount UID ({uid_of(account)}) does not match claim ({named.uid})")
