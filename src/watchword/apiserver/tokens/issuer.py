"""Issues ServiceAccount tokens: claims and signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID, uuid4

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, uid_of
from watchword.api.sensitive import Sensitive
from watchword.apiserver.authn.model import service_account_name
from watchword.apiserver.authn.service_accounts import CLAIM_PREFIX, LEGACY_ISSUER
from watchword.apiserver.errors import no_representation
from watchword.apiserver.model import Handler, HandlerRequest
from watchword.pki.jwt import TokenSigner, TokenVerifier, algorithm_of, key_set_document
from watchword.pki.keys import PrivateKey, PublicKey

CONFIGURATION_PATH = "/.well-known/openid-configuration"
KEY_SET_PATH = "/openid/v1/jwks"
KEY_SET = "application/jwk-set+json"

_CACHE = ("Cache-Control", "public, max-age=3600")


class IssuerDiscovery(Struct, frozen=True):
    """Serves the two documents; the keys are read each time, so that a rotation is visible immediately."""

    issuer: str
    key_set_url: str
    keys: Callable[[], tuple[PublicKey, ...]]

    async def configuration(self, _request: HandlerRequest) -> Response:
        """Respond with the provider metadata."""
        document: Object = {
            "issuer": self.issuer,
            "jwks_uri": self.key_set_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({algorithm_of(key) for key in self.keys()}),
        }
        return Response(200, (("Content-Type", "application/json"), _CACHE), orjson.dumps(document))

    async def key_set(self, request: HandlerRequest) -> Response:
        """Respond with the public keys; 406 when the client accepts no JWKS."""
        if not _accepts(request.header("accept"), KEY_SET):
            raise no_representation((KEY_SET,))
        body = orjson.dumps(key_set_document(self.keys()))
        return Response(200, (("Content-Type", KEY_SET), _CACHE), body)


def _accepts(accept: str, media: str) -> bool:
    named = {clause.partition(";")[0].strip().lower() for clause in accept.split(",") if clause.strip()}
    return not named or bool(named & {media, "*/*", "application/*"})


def discovery_handlers(discovery: IssuerDiscovery) -> Mapping[str, Handler]:
    """Return the handler for each path; none when the issuer is not one that can be discovered."""
    if not is_discoverable(discovery.issuer):
        return {}
    return {CONFIGURATION_PATH: discovery.configuration, KEY_SET_PATH: discovery.key_set}


def is_discoverable(issuer: str) -> bool:
    """Whether the issuer is an https URL without query or fragment."""
    return issuer.startswith("https://") and "?" not in issuer and "#" not in issuer


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
