"""ServiceAccount tokens: signed once, and good only while what they name still exists."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

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

LEEWAY = timedelta(seconds=60)
SIGNATURE_CACHE_SECONDS = 10.0

_EXTRA = "authentication.kubernetes.io/"
_INVALIDATED = "service account token has been invalidated"
LEGACY_ISSUER = "kubernetes/serviceaccount"
CLAIM_PREFIX = "kubernetes.io/serviceaccount/"
LAST_USED_LABEL = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE_LABEL = "kubernetes.io/legacy-token-invalid-since"


class TokenTrust(Struct, frozen=True):
    """The trusted issuers, and the default audiences."""

    issuers: tuple[str, ...]
    api_audiences: tuple[str, ...]
    verifier: Callable[[], TokenVerifier]  # the keys of this instant, for rotation


class ServiceAccountTokenAuthenticator(Struct, frozen=True):
    """Trusts tokens of its issuers; existence and UIDs are looked up each time, so revocation is immediate."""

    registry: Registry
    trust: TokenTrust
    now: Now
    signatures: ExpiringMap[bytes, dict[str, Any]] = field(default_factory=lambda: ExpiringMap(4096))

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return the account's user, None when another issuer made the token."""
        now = self.now()
        claims = verified_claims(token, self.trust, self.signatures, now=now)
        if claims is None:
            return None
        shared = choose_audiences(claims, asked=audiences, api_audiences=self.trust.api_audiences)
        validate_token_times(claims, now=now)
        bound = BoundTokenClaims.read(claims)
        self._require_account(bound, now)
        self._require_bound_objects(bound, now)
        return AuthenticatedIdentity(bound.user(str(claims.get("jti") or "")), shared)

    def _require_account(self, bound: BoundTokenClaims, now: datetime) -> None:
        account = self.registry.get(SERVICE_ACCOUNTS, ObjectKey(bound.namespace, bound.account.name))
        if account is None:
            raise CredentialRefused(str(errors.not_found(SERVICE_ACCOUNTS, bound.account.name)))
        if uid_of(account) != bound.account.uid:
            raise CredentialRefused(
                f"service account UID ({uid_of(account)}) does not match claim ({bound.account.uid})"
            )
        if is_long_deleted(account, now=now):
            raise CredentialRefused(f"service account {bound.namespace}/{bound.account.name} has been deleted")

    def _require_bound_objects(self, bound: BoundTokenClaims, now: datetime) -> None:
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

    name: str
    uid: str

    @classmethod
    def read(cls, value: Any) -> BoundObjectRef | None:
        """Read a claim, None when it is absent."""
        if not isinstance(value, Mapping):
            return None
        return cls(str(value.get("name") or ""), str(value.get("uid") or ""))


class BoundTokenClaims(Struct, frozen=True):
    """The private claims: the account and the objects that the token is bound to."""

    namespace: str
    account: BoundObjectRef
    pod: BoundObjectRef | None = None
    secret: BoundObjectRef | None = None
    node: BoundObjectRef | None = None

    @classmethod
    def read(cls, claims: Mapping[str, Any]) -> BoundTokenClaims:
        private = claims.get("kubernetes.io")
        if not isinstance(private, Mapping):
            private = {}
        account = BoundObjectRef.read(private.get("serviceaccount")) or BoundObjectRef("", "")
        return cls(
            str(private.get("namespace") or ""),
            account,
            BoundObjectRef.read(private.get("pod")),
            BoundObjectRef.read(private.get("secret")),
            BoundObjectRef.read(private.get("node")),
        )

    def user(self, token_id: str) -> User:
        extra: dict[str, tuple[str, ...]] = {}
        if token_id:
            extra[CREDENTIAL_ID] = (f"JTI={token_id}",)
        for kind, ref in (("node", self.node), ("pod", self.pod)):
            if ref is not None:
                extra[f"{_EXTRA}{kind}-name"] = (ref.name,)
                if ref.uid:
                    extra[f"{_EXTRA}{kind}-uid"] = (ref.uid,)
        name = service_account_name(self.namespace, self.account.name)
        return User(name, self.account.uid, service_account_groups(self.namespace), extra)


def verified_claims(
    token: str, trust: TokenTrust, signatures: ExpiringMap[bytes, dict[str, Any]], *, now: datetime
) -> dict[str, Any] | None:
    """Return the claims of a token that a trusted key signed; None when its issuer is not ours."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    known = signatures.get(digest, now=now.timestamp())
    if known is not None:
        return known
    try:
        if read_unverified_claims(token).get("iss") not in trust.issuers:
            return None
    except InvalidJwt:
        return None
    try:
        claims = trust.verifier().verify(token)
    except InvalidJwt as refusal:
        raise CredentialRefused(f"invalid signature: {refusal}") from refusal
    signatures.put(digest, claims, now=now.timestamp(), seconds=SIGNATURE_CACHE_SECONDS)
    return claims


def choose_audiences(
    claims: Mapping[str, Any], *, asked: tuple[str, ...], api_audiences: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the requested audiences that the token has; raise CredentialRefused when there is none."""
    offered = audiences_of(claims) or api_audiences
    wanted = asked or api_audiences
    shared = tuple(audience for audience in offered if audience in wanted)
    if not shared and api_audiences:
        raise CredentialRefused(
            f"token audiences {quoted_list(offered)} is invalid for the target audiences {quoted_list(wanted)}"
        )
    return shared


def validate_token_times(claims: Mapping[str, Any], *, now: datetime) -> None:
    """Raise CredentialRefused outside of the token's validity, with a minute of leeway on both sides."""
    seconds, slack = now.timestamp(), LEEWAY.total_seconds()
    expires, starts, issued = (_seconds(claims, name) for name in ("exp", "nbf", "iat"))
    if starts is not None and seconds + slack < starts:
        raise CredentialRefused("service account token is not valid yet")
    if expires is not None and seconds - slack > expires:
        raise CredentialRefused("service account token has expired")
    if issued is not None and seconds + slack < issued:
        raise CredentialRefused("service account token is issued in the future")


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CredentialRefused("service account token claims could not be validated")
    return float(value)


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
    now: Now
    signatures: ExpiringMap[bytes, dict[str, Any]] = field(default_factory=lambda: ExpiringMap(4096))

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
            raise CredentialRefused(
                f"the token in secret {named.namespace}/{named.secret} for service account "
                f"{named.namespace}/{named.account} has been marked invalid: request a token instead, or remove the "
                f"label {INVALID_SINCE_LABEL} from the secret"
            )
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
    stored = decode_base64((secret.get("data") or {}).get("token"))
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
