"""The order in which credentials are looked at: certificate first, then the bearer token."""

from __future__ import annotations

from msgspec import Struct

from watchword.apiserver import errors
from watchword.apiserver.authn.certificates import CertificateAuthenticator
from watchword.apiserver.authn.errors import CredentialRefused
from watchword.apiserver.authn.model import AuthenticatedIdentity, TokenAuthenticator, authenticated
from watchword.apiserver.model import HandlerRequest, User

UNKNOWN_TOKEN = "invalid bearer token"  # noqa: S105 - a message
LONGEST_TOKEN = 64 * 1024


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
        raise CredentialRefused(_join_messages(refusals) if refusals else UNKNOWN_TOKEN)


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
    """Return the token of an Authorization header, empty when it carries none."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) >= 2 and parts[0].lower() == "bearer" else ""


def _join_messages(refusals: list[str]) -> str:
    return refusals[0] if len(refusals) == 1 else f"[{', '.join(refusals)}]"
