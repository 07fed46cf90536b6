"""Keeps a token that another agent wrote: one of Open Cluster Management records nothing about its tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from watchword.accounts.agent.token_decision import HeldToken, digest
from watchword.api.accounts import Account
from watchword.api.meta import ObjectKey
from watchword.api.names import service_account_user
from watchword.api.sensitive import Sensitive
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, FixedCredential, bearer
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import ConfigError, Forbidden, Unauthorized
from watchword.kube.https_transport import HttpsTransport

ClientFactory: TypeAlias = Callable[[Sensitive[str]], Client]
"""Returns a client of the agent's own cluster that shows a token."""


class LocalAccount(Struct, frozen=True):
    """The ServiceAccount of an account on the cluster."""

    key: ObjectKey
    uid: str


class TokenTrial(Struct, frozen=True):
    """Shows a token to the cluster: the agent may not review tokens, and every token may ask whose it is."""

    connect: ClientFactory

    async def is_accepted(self, token: Sensitive[str], account: LocalAccount) -> bool:
        """Whether the cluster accepts a token as one of this very ServiceAccount."""
        try:
            client = self.connect(token)
        except ConfigError:  # no server would accept such a text
            return False
        try:
            found = await who_am_i(client)
        except (Unauthorized, Forbidden):
            return False
        finally:
            await client.close()
        user = service_account_user(account.key.namespace, account.key.name)
        return (found.username, found.uid) == (user, account.uid)


def is_adoptable(account: Account, held: HeldToken, local: LocalAccount, ca: bytes) -> bool:
    """Whether a token that was requested elsewhere is one that the account asks for, if the cluster accepts it.

    Servers may shorten a life, so a shorter one than requested is accepted.
    """
    fits = held.account_uid == local.uid and held.ca_digest == digest(ca)
    return fits and not account.audiences and held.expires_at - held.issued_at <= account.validity


def connect_with_token(endpoint: Endpoint) -> ClientFactory:
    """Return how a token is shown to an endpoint."""

    def connect(token: Sensitive[str]) -> Client:
        credential = Credential(authorization=bearer(token.reveal().encode()))
        return Client(HttpsTransport(endpoint, FixedCredential(credential)))

    return connect
