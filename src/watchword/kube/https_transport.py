"""The transport over sockets: HTTPS with the current credential on every request."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlencode, urlsplit

from watchword.api.http import Request, Response
from watchword.kube.connection import (
    ClientConnection,
    ConnectionLost,
    HttpProtocolError,
    ResponseParser,
    ResponseTruncated,
)
from watchword.kube.credentials import Credential, CredentialSource
from watchword.kube.endpoint import (
    Endpoint,
    NotConnected,
    ProxyError,
    ReloadingTlsContext,
    dial,
    is_loopback,
    proxy_authorization,
)
from watchword.kube.errors import (
    ClientCertificateRefused,
    ConfigError,
    KubeError,
    MalformedResponse,
    TimedOut,
    Unreachable,
    Untrusted,
)
from watchword.kube.tls import ContextCache

IDLE_SECONDS = 60.0  # shorter than the API server's own idle timeout, so that it never closes first


class ConnectionPool:
    """Provides connections; every connection is returned to the pool, whatever happened to it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        # Idle since, and of which credential; the oldest first.
        self._idle: list[tuple[float, ssl.SSLContext | None, ClientConnection]] = []
        self._in_use: dict[ClientConnection, ssl.SSLContext | None] = {}
        self._closed = False

    async def acquire(self, context: ssl.SSLContext | None) -> ClientConnection:
        """Return a usable connection; raises `NotConnected`, and `Unreachable` once the pool is closed."""
        if self._closed:
            raise Unreachable("the client is closed", maybe_processed=False)
        connection = self._find_idle(context) or await dial(self._endpoint, context)
        self._in_use[connection] = context
        return connection

    def release(self, connection: ClientConnection) -> None:
        """Keep a connection for the next request; one with an unread response is closed."""
        context = self._in_use.pop(connection, None)
        if connection.is_reusable and not self._closed:
            self._idle.append((asyncio.get_running_loop().time(), context, connection))
        else:
            connection.abort()

    def close(self) -> None:
        self._closed = True
        for connection in (*self._in_use, *(connection for *_, connection in self._idle)):
            connection.abort()
        self._idle.clear()
        self._in_use.clear()

    def _find_idle(self, context: ssl.SSLContext | None) -> ClientConnection | None:
        limit = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle and (self._idle[0][0] < limit or not self._idle[0][2].is_reusable):
            self._idle.pop(0)[2].abort()
        for place in range(len(self._idle) - 1, -1, -1):
            _, of, connection = self._idle[place]
            if of is context and connection.is_reusable:
                del self._idle[place]
                return connection
        return None


_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_HEADERS_KNOWN = 16


class RequestWriter:
    """Writes requests to one endpoint; builds what they have in common once."""

    def __init__(self, endpoint: Endpoint) -> None:
        parts = urlsplit(endpoint.server)
        absolute = bool(endpoint.proxy) and not endpoint.encrypted  # a proxy without a tunnel needs the absolute URL
        self._prefix = endpoint.server if absolute else parts.path
        self._fixed = [f"Host: {parts.netloc}", "Accept-Encoding: identity"]
        self._fixed += proxy_authorization(urlsplit(endpoint.proxy)) if absolute else []
        self._known: dict[int, tuple[tuple[tuple[str, str], ...], Credential, bytes]] = {}

    def write(self, request: Request, credential: Credential) -> bytes:
        """Return the bytes to send; raises `ConfigError` for what is not HTTP."""
        query = f"?{urlencode(request.query)}" if request.query else ""
        target = f"{self._prefix}{request.path}{query}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise _not_http()
        begin = f"{request.method} {target} HTTP/1.1\r\n".encode()
        length = b""
        if request.body or request.method in _WITH_BODY:
            length = b"Content-Length: %d\r\n" % len(request.body)
        return b"".join((begin, self._headers(request, credential), length, b"\r\n", request.body))

    def _headers(self, request: Request, credential: Credential) -> bytes:
        """Return the headers; clients repeat the same few sets, so each is built once."""
        known = self._known.get(id(request.headers))
        if known is not None and known[0] is request.headers and known[1] is credential:
            return known[2]
        lines = [*self._fixed, *(f"{name}: {value}" for name, value in (*request.headers, *credential.headers))]
        if credential.authorization is not None:
            lines.append(f"Authorization: {credential.authorization.reveal()}")
        if not all(map(str.isprintable, lines)):
            raise _not_http()
        made = "".join(f"{line}\r\n" for line in lines).encode()
        if len(self._known) >= _HEADERS_KNOWN:
            self._known.clear()
        self._known[id(request.headers)] = request.headers, credential, made
        return made


def _not_http() -> ConfigError:
    return ConfigError("the request cannot be sent: an address or header is not valid HTTP")


_EXPIRED, _NOT_YET_VALID = 10, 9
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})
_WRONG_NAME = frozenset({62, 64})
_CERTIFICATE_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "ACCESS_DENIED",
)


def to_kube_error(cause: BaseException, server: str, *, with_certificate: bool) -> KubeError:
    """Return our error for a failed request; the message names the server and the reason."""
    alert = _alert(cause)
    if alert and not isinstance(cause, NotConnected):  # before the handshake has ended, the peer has proved nothing
        refused = f"{server} rejected the client certificate ({alert}): it may be expired or of another authority"
        missing = f"{server} wants a client certificate, and none is configured ({alert})"
        kind, message = (ClientCertificateRefused, refused) if with_certificate else (Unreachable, missing)
        return kind(message, maybe_processed=False)
    if isinstance(cause, NotConnected):
        error = Untrusted if isinstance(cause.__cause__, ssl.SSLCertVerificationError) else Unreachable
        return error(f"{server} cannot be reached: {_unconnected(cause.__cause__)}", maybe_processed=False)
    if isinstance(cause, TimeoutError):
        return TimedOut(f"{server} did not answer in time")
    if isinstance(cause, ResponseTruncated):
        return Unreachable(f"{server} closed the connection in the middle of a response")
    if isinstance(cause, HttpProtocolError):
        return MalformedResponse(f"{server} sent a response that is not valid HTTP")
    # Many servers drop a connection whose client certificate they reject without an alert.
    hint = ": it may have rejected the client certificate (expired, or of another authority)"
    return Unreachable(f"{server} closed the connection without a response{hint if with_certificate else ''}")


def _unconnected(cause: BaseException | None) -> str:
    for kind, sentence in _BEFORE_SENDING:
        if isinstance(cause, kind):
            return sentence(cause)
    return (getattr(cause, "strerror", None) or "the network failed").lower()


def _certificate(cause: BaseException) -> str:
    code = getattr(cause, "verify_code", 0)
    if code == _EXPIRED:
        return "its certificate has expired"
    if code == _NOT_YET_VALID:
        return "its certificate is not valid yet: is a clock wrong?"
    if code in _UNKNOWN_AUTHORITY:
        return "its certificate is signed by an authority that is not trusted here: check certificate-authority"
    if code in _WRONG_NAME:
        return "its certificate is for another name: check the address or tls-server-name"
    return f"its certificate is not accepted ({getattr(cause, 'verify_message', '') or 'TLS failed'})"


def _handshake(cause: BaseException) -> str:
    reason = _reason(cause)
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}:
        return "it does not speak TLS on this port"
    if _alert(cause):
        return "it rejected the client certificate"
    return f"the TLS handshake failed ({reason.lower().replace('_', ' ') or 'no reason given'})"


def _alert(cause: BaseException) -> str:
    """Return how the server refused our certificate; with TLS 1.3 it does so after the handshake. Empty: it did not."""
    reason = _reason(cause)
    return reason.lower().replace("_", " ") if any(alert in reason for alert in _CERTIFICATE_ALERTS) else ""


def _reason(cause: BaseException | None) -> str:
    for _ in range(5):
        if cause is None or isinstance(cause, ProxyError):  # a proxy is not shown the certificate
            return ""
        reason = getattr(cause, "reason", None) if isinstance(cause, ssl.SSLError) else None
        if isinstance(reason, str):
            return reason
        cause = cause.__cause__ or cause.__context__
    return ""


_BEFORE_SENDING: tuple[tuple[type[BaseException], Callable[[BaseException], str]], ...] = (
    (ssl.SSLCertVerificationError, _certificate),
    (ssl.SSLError, _handshake),
    (ProxyError, str),
    (TimeoutError, lambda _: "connecting took too long"),
    (socket.gaierror, lambda _: "its name cannot be resolved"),
    (ConnectionRefusedError, lambda _: "the connection was refused: is the API server running at this address?"),
    (ConnectionError, lambda _: "the connection was closed during the handshake"),
)


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
        self._pool = ConnectionPool(endpoint)
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
