"""The authentication seam: a credential shown, an identity established or refused."""

import re
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from watchword.apiserver.model import User

ANONYMOUS_NAME = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = User(ANONYMOUS_NAME, groups=(UNAUTHENTICATED,))
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
ALL_SERVICE_ACCOUNTS = "system:serviceaccounts"
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)


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
    if len(parts) != 2 or not _LABEL.fullmatch(parts[0]) or not _SUBDOMAIN.fullmatch(parts[1]):
        return None
    return parts[0], parts[1]
