"""The interface below the client: how a request reaches an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isasyncgen
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from watchword.api.http import Peer, Request, Response
from watchword.api.sensitive import Sensitive
from watchword.kube.credentials import Credential, CredentialSource, FixedCredential
from watchword.kube.errors import Unreachable

RequestHandler: TypeAlias = Callable[[Request], Awaitable[Response]]


class InProcessTransport:
    """Passes requests to a function as one identity: a credential, a fixed Authorization header, a peer, or some."""

    def __init__(
        self,
        handle: RequestHandler,
        *,
        credentials: CredentialSource | None = None,
        authorization: Sensitive[str] | None = None,
        peer: Peer | None = None,
    ) -> None:
        self._handle = handle
        self._credentials = credentials or FixedCredential(Credential(authorization))
        self._peer = peer or Peer(address="in-process")
        self._closed = False

    def with_identity(
        self, *, authorization: Sensitive[str] | None = None, peer: Peer | None = None
    ) -> InProcessTransport:
        return InProcessTransport(self._handle, authorization=authorization, peer=peer)

    async def send(self, request: Request) -> Response:
        response = await self._call(request)
        if response.stream is None:
            return response
        try:
            body = b"".join([chunk async for chunk in response.stream])
        finally:
            await _close(response)
        return replace(response, body=body, stream=None)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Call the function; the stream of its response is closed when the context is left."""
        response = await self._call(request)
        try:
            yield response
        finally:
            await _close(response)

    async def close(self) -> None:
        self._closed = True

    async def _call(self, request: Request) -> Response:
        if self._closed:
            raise Unreachable("the client is closed", maybe_processed=False)
        headers = request.headers
        credential = await self._credentials.current()
        if credential.authorization is not None:
            headers = (*headers, ("Authorization", credential.authorization.reveal()))
        return await self._handle(replace(request, headers=headers, peer=self._peer))


async def _close(response: Response) -> None:
    if isasyncgen(response.stream):
        await response.stream.aclose()


class Transport(Protocol):
    """Sends requests to one API server as one identity.

    Raises `Unreachable` when there was no response; any response, whatever its code, is returned.
    """

    async def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request; inside the context `Response.stream` yields the body in chunks."""
        ...

    async def close(self) -> None: ...
