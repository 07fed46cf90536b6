"""The transport over sockets: HTTPS with the current credential on every request."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from watchword.api.http import Request, Response
from watchword.kube.connection import ClientConnection, ConnectionLost, ResponseTruncated
from watchword.kube.connection_pool import ConnectionPool
from watchword.kube.credentials import Credential, CredentialSource
from watchword.kube.dial import ConnectionDialer, NotConnected
from watchword.kube.endpoint import Endpoint, ReloadingTlsContext, is_loopback
from watchword.kube.errors import ConfigError, KubeError, MalformedResponse
from watchword.kube.request_writer import RequestWriter
from watchword.kube.response_parser import HttpProtocolError, ResponseParser
from watchword.kube.tls import ContextCache
from watchword.kube.transport_errors import to_kube_error

BODY_LIMIT = 512 * 1024 * 1024
_CONNECTION_ERRORS = (NotConnected, ConnectionLost, ResponseTruncated, HttpProtocolError)


class HttpsTransport:
    """Sends HTTP/1.1 requests to one endpoint; connections are shared, TLS contexts follow the credential."""

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
        self._tls = ReloadingTlsContext(endpoint, contexts or ContextCache())
        self._body_limit = body_limit
        self._pool = ConnectionPool(ConnectionDialer(endpoint))
        self._writer = RequestWriter(endpoint)
        self._may_identify = endpoint.encrypted or is_loopback(endpoint.server)

    async def send(self, request: Request) -> Response:
        """Send one request; after a 401 once more, when the credential can be renewed."""
        credential = await self._credentials.current()
        response = await self._send_once(request, credential)
        if response.status == 401:
            other = await self._credentials.renewed(credential)
            if other is not None:
                return await self._send_once(request, other)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request; chunks arrive as the socket delivers them."""
        credential = await self._credentials.current()
        connection, response = await self._begin(request, credential)
        try:
            if response.status == 401:
                other = await self._credentials.renewed(credential)
                if other is not None:
                    self._pool.release(connection)
                    connection, response = await self._begin(request, other)
            yield Response(response.status, tuple(response.headers), stream=self._chunks(connection))
        finally:
            self._pool.release(connection)

    async def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    async def _send_once(self, request: Request, credential: Credential) -> Response:
        connection, response = await self._begin(request, credential)
        try:
            body = await self._body(connection)
        finally:
            self._pool.release(connection)
        return Response(response.status, tuple(response.headers), body)

    async def _begin(self, request: Request, credential: Credential) -> tuple[ClientConnection, ResponseParser]:
        encoded_request = self._writer.write(request, credential)
        context = self._context(credential)
        try:
            connection = await self._pool.acquire(context)
            try:
                return connection, await connection.send_request(encoded_request)
            except BaseException:
                self._pool.release(connection)
                raise
        except _CONNECTION_ERRORS as cause:
            raise self._to_kube_error(cause) from cause

    def _context(self, credential: Credential) -> ssl.SSLContext | None:
        if not self._may_identify and credential != Credential():
            raise ConfigError("a credential is not sent over plain http to another machine: use https")
        return self._tls.context(credential.certificate) if self._endpoint.encrypted else None

    async def _body(self, connection: ClientConnection) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in self._chunks(connection):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._body_limit:
                raise MalformedResponse(
                    f"{self._endpoint.server} sent more than {self._body_limit} bytes in one response"
                )
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _chunks(self, connection: ClientConnection) -> AsyncIterator[bytes]:
        try:
            while chunk := await connection.chunk():
                yield chunk
        except _CONNECTION_ERRORS as cause:
            raise self._to_kube_error(cause) from cause

    def _to_kube_error(self, cause: Exception) -> KubeError:
        return to_kube_error(cause, self._endpoint.server, with_certificate=self._tls.has_client_certificate)
