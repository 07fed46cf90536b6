"""Discovers the tokens of an account on the hub, live: which clusters have one, and every change.

>>> from watchword.accounts.tokens import TokenAvailable, watch_tokens
>>> async def follow(hub):
...     async for change in watch_tokens(hub, "robot", namespace="team"):
...         print(change.cluster, "has a token" if isinstance(change, TokenAvailable) else "has none")
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import datetime
from typing import TypeAlias

import orjson
from msgspec import Struct

from watchword.api.accounts import SELECTOR, AccountSecret, copy_name, split_copy_name
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Label
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.kube.watch import ObjectChange, Snapshot, WatchOptions, list_and_watch


class AccountsError(Exception):
    """Base of everything this package raises."""


class NoToken(AccountsError):
    """The hub holds no token of that account for that cluster; the message says what to look at."""


class AccountToken(Struct, frozen=True):
    """The token of an account on one cluster, with what is needed to use it there."""

    cluster: str
    account: str
    token: Sensitive[str]
    ca: bytes
    server: str  # empty when neither the agent nor the ManagedCluster says it
    expires_at: datetime | None


class TokenAvailable(Struct, frozen=True):
    """A cluster has a token now: the first one, or another than before."""

    token: AccountToken

    @property
    def cluster(self) -> str:
        return self.token.cluster


class TokenGone(Struct, frozen=True):
    """A cluster has no token any more."""

    cluster: str


TokenChange: TypeAlias = TokenAvailable | TokenGone


def read_token(secret: Object) -> AccountToken | None:
    """Read the Secret of an account, or a copy in a cluster-set namespace; None when it holds no token."""
    found = AccountSecret.read(secret)
    cluster, account = found.key.namespace, found.key.name
    if Label.ACCOUNT_NAMESPACE in labels_of(secret):
        cluster, account = split_copy_name(found.key.name)
    if not found.token or not found.ca:
        return None
    return AccountToken(cluster, account, found.token, found.ca, found.server, found.expires_at)


async def find_token(hub: Client, account: str, cluster: str, *, namespace: str = "") -> AccountToken | None:
    """Return the token of an account on one cluster, from its cluster-set namespace when one is named."""
    in_set = namespace not in ("", cluster)
    key = ObjectKey(namespace, copy_name(cluster, account)) if in_set else ObjectKey(cluster, account)
    secret = await hub.find(SECRETS, key)
    return read_token(secret) if secret is not None else None


async def watch_tokens(
    hub: Client, account: str, *, namespace: str = "", known: Iterable[str] = (), options: WatchOptions | None = None
) -> AsyncGenerator[TokenChange, None]:
    """Yield every token of an account that there is, then every change, for ever.

    With `namespace`, the tokens of an account in that cluster-set namespace or cluster's namespace; without, those of
    accounts of that name in the namespaces of all clusters. Of the clusters in `known`, of which the caller has a token
    from before, those without one are yielded as gone. While the hub cannot be reached, it waits. Close it
    (`aclosing`) to end the watch.
    """
    tokens: dict[str, AccountToken | None] = dict.fromkeys(known)  # cluster → its token; None: one from before
    updates = list_and_watch(hub, SECRETS, namespace=namespace, labels=SELECTOR, options=options)
    async with aclosing(updates) as facts:
        async for fact in facts:
            if isinstance(fact, Snapshot):
                present, affected = _tokens(fact.items, account, namespace), list(tokens)
            elif isinstance(fact, ObjectChange):
                found = _tokens([fact.raw], account, namespace)
                present, affected = ({} if fact.type == "DELETED" else found), list(found)
            else:
                continue
            for cluster in affected:
                if cluster in tokens and cluster not in present:
                    del tokens[cluster]
                    yield TokenGone(cluster)
            for cluster, token in present.items():
                if tokens.get(cluster) != token:
                    tokens[cluster] = token
                    yield TokenAvailable(token)


def _tokens(raw: Iterable[bytes], account: str, namespace: str) -> dict[str, AccountToken]:
    secrets = map(orjson.loads, raw)
    # In all namespaces, copies would show each cluster twice.
    found = (read_token(obj) for obj in secrets if namespace or Label.ACCOUNT_NAMESPACE not in labels_of(obj))
    return {token.cluster: token for token in found if token is not None and token.account == account}
