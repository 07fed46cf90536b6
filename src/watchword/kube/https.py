"""The transport over sockets: HTTPS with the credential of the moment on every request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from multidict import CIMultiDict
from yarl import URL

from watchword._http import aiohttp
from watchword.api.http import Request, Response
from watchword.kube.credentials import Credential, CredentialSource
from watchword.kube.endpoint import CurrentTls, Endpoint, is_loopback
from watchword.kube.errors import ConfigError, KubeError, MalformedAnswer, Unreachable
from watchword.kube.failures import explain
from watchword.kube.tls import ContextCache

BODY_LIMIT = 512 * 1024 * 1024
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 60.0  # shorter than the API server's own patience, so that it never closes first
_TROUBLE = (aiohttp.ClientError, OSError, TimeoutError)


class HttpsTransport:
    """Speaks HTTP/1.1 to one endpoint; connections are shared, contexts follow the rotating credential."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: CredentialSource,
        *,
        contexts: ContextCache | None = None,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._tls = CurrentTls(endpoint, contexts or ContextCache())
        self._body_limit = body_limit
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._headers = _Headers()
        self._may_identify = endpoint.encrypted or is_loopback(endpoint.server)

    async def send(self, request: Request) -> Response:
        """Send one request; after a 401 once more, when the credential can be renewed."""
        credential = await self._credentials.current()
        response = await self._exchange(request, credential)
        if response.status == 401:
            other = await self._credentials.renewed(credential)
            if other is not None:
                return await self._exchange(request, other)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request; chunks arrive as the socket delivers them."""
        credential = await self._credentials.current()
        answer = await self._begin(request, credential)
        try:
            if answer.status == 401:
                other = await self._credentials.renewed(credential)
                if other is not None:
                    answer.close()
                    answer = await self._begin(request, other)
            yield Response(answer.status, tuple(answer.headers.items()), stream=self._chunks(answer))
        finally:
            _abandon(answer)  # not released: an unfinished answer spoils its connection

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, request: Request, credential: Credential) -> Response:
        answer = await self._begin(request, credential)
        try:
            body = await self._body(answer)
        except BaseException:
            answer.close()
            raise
        if answer.connection is not None:  # a whole body has released it already
            answer.release()
        return Response(answer.status, tuple(answer.headers.items()), body)

    async def _begin(self, request: Request, credential: Credential) -> aiohttp.ClientResponse:
        options = self._options(credential)
        query = f"?{urlencode(request.query)}" if request.query else ""
        url = URL(f"{self._endpoint.server}{request.path}{query}", encoded=True)
        try:
            return await self._open_session().request(
                request.method,
                url,
                data=request.body or None,
                headers=self._headers.of(request, credential),
                allow_redirects=False,
                **options,
            )
        except _TROUBLE as cause:
            raise self._explained(cause) from cause
        except ValueError as cause:  # aiohttp refuses what cannot be sent, such as a line break in a header
            raise ConfigError("the request cannot be sent: an address or header is not valid HTTP") from cause

    def _options(self, credential: Credential) -> dict[str, Any]:
        """Return what depends on TLS and proxy."""
        endpoint = self._endpoint
        if not self._may_identify and credential != Credential():
            raise ConfigError("a credential is not sent over plain http to another machine: use https")
        options: dict[str, Any] = {"proxy": endpoint.proxy} if endpoint.proxy else {}
        if endpoint.encrypted:
            options["ssl"] = self._tls.context(credential.certificate)
        if endpoint.server_name:
            options["server_hostname"] = endpoint.server_name
        return options

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable("the client is closed", maybe_done=False)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, connect=CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,  # nothing compressed is asked for: a bomb stays packed
            )
        return self._session

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        try:
            if answer.content_length is not None and answer.content_length <= self._body_limit:
                return await answer.read()
            chunks: list[bytes] = []
            size = 0
            async for chunk in answer.content.iter_any():
                chunks.append(chunk)
                size += len(chunk)
                if size > self._body_limit:
                    raise MalformedAnswer(
                        f"{self._endpoint.server} sent more than {self._body_limit} bytes in one answer"
                    )
            return b"".join(chunks)
        except _TROUBLE as cause:
            raise self._explained(cause) from cause

    async def _chunks(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in answer.content.iter_any():
                yield chunk
        except _TROUBLE as cause:
            raise self._explained(cause) from cause

    def _explained(self, cause: Exception) -> KubeError:
        return explain(cause, self._endpoint.server, with_certificate=self._tls.shows_certificate)


class _Headers:
    """Headers in the library's own form, made once for as long as a client says the same."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[tuple[str, str], ...], Credential, CIMultiDict[str]]] = {}

    def of(self, request: Request, credential: Credential) -> CIMultiDict[str]:
        """Return the headers of a request; whoever gets them must not change them."""
        known = self._known.get(id(request.headers))
        if known is not None and known[0] is request.headers and known[1] is credential:
            return known[2]
        made = CIMultiDict([("Accept-Encoding", "identity"), *request.headers, *credential.headers])
        if credential.authorization is not None:
            made.add("Authorization", credential.authorization.reveal())
        if len(self._known) >= _HEADERS_KNOWN:
            self._known.clear()
        self._known[id(request.headers)] = request.headers, credential, made
        return made


_HEADERS_KNOWN = 16


def _abandon(answer: aiohttp.ClientResponse) -> None:
    """Drop a connection at once: a polite farewell over TLS may outlast a command's event loop."""
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.close()
