"""Ready clients for clusters: each uses the newest token of an account, and outlives every rotation.

>>> from watchword.accounts.clients import ClusterClients
>>> async def use(hub):
...     async with ClusterClients(hub, "robot", namespace="team") as clusters:
...         client = await clusters.client("cluster1")
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias

from msgspec import Struct, field

from watchword.accounts.tokens import AccountToken, NoToken, TokenAvailable, watch_tokens
from watchword.api.http import Request, Response
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, CredentialSource, bearer
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import ConfigError
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.transport import Transport
from watchword.runtime.event_loop import running

PATIENCE_AFTER_REFUSAL = 5.0  # seconds in which the hub may tell of the token that replaces a refused one

REVOKED = "the hub holds no token for this cluster any more: the account was revoked or removed"

TransportFactory: TypeAlias = Callable[[Endpoint, CredentialSource], Transport]


class LiveToken(Struct):
    """The newest token of one cluster, and a signal for every change; a source of credentials."""

    token: AccountToken | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def set(self, token: AccountToken | None) -> None:
        self.token = token
        self.changed.set()
        self.changed = asyncio.Event()

    async def current(self) -> Credential:
        """Return the newest token; `ConfigError` when the account was revoked."""
        if self.token is None:
            raise ConfigError(REVOKED)
        return Credential(authorization=bearer(self.token.token.reveal().encode()))

    async def renewed(self, rejected: Credential) -> Credential | None:
        try:
            async with asyncio.timeout(PATIENCE_AFTER_REFUSAL):
                while self.token is None or await self.current() == rejected:
                    await self.changed.wait()
        except TimeoutError:
            return None
        return await self.current()


class LiveTransport(Struct):
    """Carries requests to where the newest token is honoured; follows the server's address and authority, too."""

    source: LiveToken
    make: TransportFactory
    _endpoint: Endpoint | None = None
    _transports: list[Transport] = field(default_factory=list)

    async def send(self, request: Request) -> Response:
        return await self._current().send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request with the newest token; the response is read piece by piece."""
        async with self._current().stream(request) as response:
            yield response

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()

    def _current(self) -> Transport:
        token = self.source.token
        if token is None:
            raise ConfigError(REVOKED)
        if not token.server:
            raise ConfigError("the hub does not say where the cluster's API server is: set managedClusterClientConfigs")
        endpoint = Endpoint(token.server, token.ca)
        if endpoint != self._endpoint:  # requests that are under way keep the transport that they have
            self._endpoint = endpoint
            self._transports.append(self.make(endpoint, self.source))
        return self._transports[-1]


class ClusterClients:
    """Clients for every cluster that has a token of an account; enter it to follow the hub."""

    def __init__(
        self, hub: Client, account: str, *, namespace: str = "", make_transport: TransportFactory = HttpsTransport
    ) -> None:
        self._hub = hub
        self._account = account
        self._namespace = namespace
        self._make = make_transport
        self._live: dict[str, LiveToken] = {}
        self._clients: dict[str, Client] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(running(self._follow(), f"tokens of {self._account}"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        for client in self._clients.values():
            await client.close()

    @property
    def clusters(self) -> list[str]:
        return sorted(name for name, live in self._live.items() if live.token is not None)

    async def client(self, cluster: str, *, within: float = 30.0, **options: Any) -> Client:
        """Return the client of a cluster, the same one each time; `NoToken` when none is reported in that time."""
        live = self._live.setdefault(cluster, LiveToken())
        try:
            async with asyncio.timeout(within):
                while live.token is None:
                    await live.changed.wait()
        except TimeoutError as cause:
            raise NoToken(
                f"the hub holds no token of account {self._account} for cluster {cluster}: "
                f"`watchword serviceaccount show {self._account} -n {self._namespace or cluster}` says why"
            ) from cause
        if cluster not in self._clients:
            self._clients[cluster] = Client(LiveTransport(live, self._make), **options)
        return self._clients[cluster]

    async def _follow(self) -> None:
        async with aclosing(watch_tokens(self._hub, self._account, namespace=self._namespace)) as changes:
            async for change in changes:
                token = change.token if isinstance(change, TokenAvailable) else None
                self._live.setdefault(change.cluster, LiveToken()).set(token)
