"""The order in which credentials are looked at: certificate first, then the bearer token."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.credential_report import CREDENTIAL_ID, certificate_id
from watchword.api.expiring_map import ExpiringMap
from watchword.api.meta import Object
from watchword.api.sensitive import Sensitive
from watchword.api.validation import is_dns_label, is_dns_subdomain
from watchword.apiserver.access.rbac import SERVICE_ACCOUNT_PREFIX, join_problems
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import HandlerRequest, Now, User
from watchword.pki.certificates import Certificate, parse_certificate, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.subjects import Usage

ANONYMOUS_NAME = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = User(ANONYMOUS_NAME, groups=(UNAUTHENTICATED,))
ALL_SERVICE_ACCOUNTS = "system:serviceaccounts"


class CredentialRefused(Exception):
    """A credential was sent and is not valid; the message may be shown, and never contains the credential."""


class AuthenticatedIdentity(Struct, frozen=True):
    """An authenticated user, and the requested audiences for which the credential is valid."""

    user: User
    audiences: tuple[str, ...] = ()


class TokenAuthenticator(Protocol):
    """Knows one kind of bearer token."""

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return the token's user, None when it is of another kind; raise CredentialRefused when it is bad."""


def authenticated(user: User) -> User:
    if user.name == ANONYMOUS_NAME or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def service_account_name(namespace: str, name: str) -> str:
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, ...]:
    return (ALL_SERVICE_ACCOUNTS, f"{ALL_SERVICE_ACCOUNTS}:{namespace}")


def split_service_account(username: str) -> tuple[str, str] | None:
    """Return namespace and name when the user name is a ServiceAccount's, None otherwise."""
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    parts = username.removeprefix(SERVICE_ACCOUNT_PREFIX).split(":")
    if len(parts) != 2 or not is_dns_label(parts[0]) or not is_dns_subdomain(parts[1]):
        return None
    return parts[0], parts[1]


LONGEST_CHAIN = 10
SIGNATURE_CACHE_SECONDS = 3600.0  # a signature stays good; dates and the bundle are compared each time
VerifiedChain = tuple[tuple[bytes, ...], tuple[bytes, ...]]  # as shown, and the bundle that it was verified with
UNKNOWN_TOKEN = "invalid bearer token"  # noqa: S105 - a message
LONGEST_TOKEN = 64 * 1024
ANSWER_CACHE_SECONDS = 10.0
TokenReviewer = Callable[[Object], Awaitable[Mapping[str, Any]]]
"""Sends a TokenReview and returns the reviewed one; raises OSError or TimeoutError without a response."""


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
    verified: ExpiringMap[VerifiedChain, VerifiedClient] = field(default_factory=lambda: ExpiringMap(1024))

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
        known = self.verified.get(key, now=now.timestamp())
        if known is not None:
            return known
        leaf, *others = (parse_certificate(der) for der in shown)
        chain = verify_chain(leaf, roots, now=now, usage=Usage.CLIENT_AUTH, intermediates=others)
        extra = {CREDENTIAL_ID: (certificate_id(leaf.der),)}
        named = User(leaf.common_name, groups=leaf.organisations, extra=extra) if leaf.common_name else None
        client = VerifiedClient(chain, named)
        self.verified.put(key, client, now=now.timestamp(), seconds=SIGNATURE_CACHE_SECONDS)
        return client


class TokenChain(Struct, frozen=True):
    """Every kind of bearer token, local ones first."""

    authenticators: tuple[TokenAuthenticator, ...]
    api_audiences: tuple[str, ...]

    async def identify(self, token: str, audiences: tuple[str, ...] = ()) -> AuthenticatedIdentity:
        """Return the user of the token; raise CredentialRefused when no authenticator accepts it."""
        if len(token) > LONGEST_TOKEN:
            raise CredentialRefused(UNKNOWN_TOKEN)
        refusals: list[str] = []
        for authenticator in self.authenticators:
            try:
                found = await authenticator.identify(token, audiences or self.api_audiences)
            except CredentialRefused as refusal:
                refusals.append(str(refusal))
                continue
            if found is not None:
                return AuthenticatedIdentity(authenticated(found.user), found.audiences)
        raise CredentialRefused(join_problems(refusals) if refusals else UNKNOWN_TOKEN)


class RequestAuthenticator(Struct, frozen=True):
    """Authenticates a request. A bad certificate next to a good token is ignored; bad credentials alone are a 401."""

    tokens: TokenChain
    certificates: CertificateAuthenticator | None = None

    async def __call__(self, request: HandlerRequest) -> User | None:
        """Return the user, None when no credential was shown; raise the 401 otherwise."""
        refused = False
        chain = request.peer.certificate_chain
        if chain and self.certificates is not None:
            try:
                user = self.certificates.identify(chain)
            except CredentialRefused:
                refused = True
            else:
                if user is not None:
                    return authenticated(user)
        token = bearer_token(request.header("Authorization"))
        if token:
            try:
                return (await self.tokens.identify(token)).user
            except CredentialRefused as refusal:
                raise errors.unauthorized() from refusal
        if refused:
            raise errors.unauthorized()
        return None


def bearer_token(header: str) -> str:
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) >= 2 and parts[0].lower() == "bearer" else ""


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


class WebhookTokenAuthenticator(Struct, frozen=True):
    """Accepts the reviewer's result, cached for ten seconds if positive; an unreachable reviewer means refused."""

    review: TokenReviewer
    api_audiences: tuple[str, ...]
    now: Now
    cache: ExpiringMap[bytes, AuthenticatedIdentity] = field(default_factory=lambda: ExpiringMap(4096))

    async def identify(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        """Return whom the reviewer names, None when it does not know the token."""
        asked = "\0".join((token, *audiences)).encode("utf-8", "surrogatepass")
        digest, now = hashlib.sha256(asked).digest(), self.now().timestamp()
        known = self.cache.get(digest, now=now)
        if known is None:
            known = await self._send_review(token, audiences)
            if known is not None:
                self.cache.put(digest, known, now=now, seconds=ANSWER_CACHE_SECONDS)
        return known

    async def _send_review(self, token: str, audiences: tuple[str, ...]) -> AuthenticatedIdentity | None:
        question: Object = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token, "audiences": list(audiences)},
        }
        try:
            answer = await self.review(question)
        except (OSError, TimeoutError) as cause:
            raise CredentialRefused("the token reviewer cannot be reached") from cause
        return decide_review_result(answer.get("status") or {}, asked=audiences, api_audiences=self.api_audiences)


def decide_review_result(
    status: Mapping[str, Any], *, asked: tuple[str, ...], api_audiences: tuple[str, ...]
) -> AuthenticatedIdentity | None:
    """Decide from the reviewer's status; raise CredentialRefused for an error or a foreign audience."""
    if not status.get("authenticated"):
        if status.get("error"):
            raise CredentialRefused(str(status["error"]))
        return None
    # a review without audiences counts for this server alone
    accepted = tuple(status.get("audiences") or api_audiences)
    audiences = tuple(audience for audience in asked if audience in accepted)
    if asked and not audiences:
        return None
    row = status.get("user") or {}
    extra = {key: tuple(values) for key, values in (row.get("extra") or {}).items()}
    user = User(row.get("username") or "", row.get("uid") or "", tuple(row.get("groups") or ()), extra)
    if not user.name:
        raise CredentialRefused("the token reviewer named no user")
    return AuthenticatedIdentity(user, audiences)
