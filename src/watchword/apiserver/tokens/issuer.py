"""Issues ServiceAccount tokens: claims and signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID, uuid4

from msgspec import Struct

from watchword.api.meta import Object, uid_of
from watchword.api.sensitive import Sensitive
from watchword.apiserver.authn.legacy_tokens import CLAIM_PREFIX, LEGACY_ISSUER
from watchword.apiserver.authn.model import service_account_name
from watchword.pki.jwt import TokenSigner, TokenVerifier
from watchword.pki.keys import PrivateKey, PublicKey


class TokenKeys(Struct, frozen=True, dict=True):
    """One key signs; it and those before it (or yet to come) verify."""

    signing: PrivateKey
    others: tuple[PublicKey, ...] = ()

    @property
    def public(self) -> tuple[PublicKey, ...]:
        """Every key whose tokens are trusted, the signing one first."""
        return tuple(dict.fromkeys((self.signing.public, *self.others)))

    def verifier(self) -> TokenVerifier:
        """Return the verifier that knows all the keys; made once, for reading keys is slow."""
        return self._verifier

    @cached_property
    def _verifier(self) -> TokenVerifier:
        return TokenVerifier(self.public)


class BoundObjects(Struct, frozen=True):
    """The objects that a token is bound to; a pod may come with its node, a secret comes alone."""

    pod: Object | None = None
    node: Object | None = None
    secret: Object | None = None


class TokenLifetime(Struct, frozen=True):
    """How long the token is good, and after what time its use is remarkable."""

    seconds: int
    warn_after_seconds: int = 0


class TokenIssuer(Struct, frozen=True):
    """Signs tokens in the name of one issuer."""

    issuer: str
    signer: TokenSigner
    new_id: Callable[[], UUID] = uuid4

    def issue(
        self,
        account: Object,
        audiences: Sequence[str],
        lifetime: TokenLifetime,
        bindings: BoundObjects,
        *,
        now: datetime,
    ) -> Sensitive[str]:
        """Return a new token for the account."""
        return self.signer.sign(
            {
                "aud": list(audiences),
                "exp": int((now + timedelta(seconds=lifetime.seconds)).timestamp()),
                "iat": int(now.timestamp()),
                "iss": self.issuer,
                "jti": str(self.new_id()),
                "kubernetes.io": private_claims(account, lifetime, bindings, now=now),
                "nbf": int(now.timestamp()),
                "sub": service_account_name(account["metadata"]["namespace"], account["metadata"]["name"]),
            }
        )

    def issue_legacy(self, account: Object, secret_name: str) -> Sensitive[str]:
        """Return the token of a Secret for the account: without expiry, bound to that Secret."""
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        return self.signer.sign(
            {
                "iss": LEGACY_ISSUER,
                f"{CLAIM_PREFIX}namespace": namespace,
                f"{CLAIM_PREFIX}secret.name": secret_name,
                f"{CLAIM_PREFIX}service-account.name": name,
                f"{CLAIM_PREFIX}service-account.uid": uid_of(account),
                "sub": service_account_name(namespace, name),
            }
        )


def private_claims(account: Object, lifetime: TokenLifetime, bindings: BoundObjects, *, now: datetime) -> Object:
    """Return the `kubernetes.io` claim."""
    claims: Object = {"namespace": account["metadata"]["namespace"]}
    if bindings.node is not None:
        claims["node"] = _reference(bindings.node)
    if bindings.pod is not None:
        claims["pod"] = _reference(bindings.pod)
    if bindings.secret is not None:
        claims["secret"] = _reference(bindings.secret)
    claims["serviceaccount"] = _reference(account)
    if lifetime.warn_after_seconds:
        claims["warnafter"] = int((now + timedelta(seconds=lifetime.warn_after_seconds)).timestamp())
    return claims


def _reference(obj: Object) -> Object:
    reference = {"name": obj["metadata"]["name"]}
    uid = uid_of(obj)
    return {**reference, "uid": uid} if uid else reference
