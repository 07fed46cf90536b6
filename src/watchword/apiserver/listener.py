"""Serves a control plane on a TLS socket; the only place that knows of HTTP libraries."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from inspect import isasyncgen
from typing import Any

from watchword._http.server import web
from watchword.api.http import Peer, Request, Response
from watchword.apiserver.errors import MAX_BODY_BYTES, too_large
from watchword.apiserver.negotiation import error_response

Handle = Callable[[Request], Awaitable[Response]]
Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
CurrentContext = Callable[[], ssl.SSLContext]


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """What a socket bears before it refuses."""

    connections: int = 4096
    header_bytes: int = 64 * 1024
    keepalive_seconds: float = 180.0
    drain_seconds: float = 10.0  # how long requests under way may take when the server stops


class Listener:
    """Accepts connections, hands plain requests to a function, and writes its answers."""

    def __init__(self, handle: Handle, context: CurrentContext, limits: ListenerLimits | None = None) -> None:
        self._handle = handle
        self._context = context
        self._limits = limits or ListenerLimits()
        self._server = _BoundedServer(self._serve, self._limits)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=self._limits.drain_seconds)
        self._streams: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system chooses when 0 was asked for."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=front_context(self._context), backlog=1024)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Accept no more, end the watches cleanly, let the rest finish."""
        self._stopping = True
        for task in tuple(self._streams):
            task.cancel()
        await self._runner.cleanup()

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        if (http.content_length or 0) > MAX_BODY_BYTES:
            return _plain(http, error_response(None, too_large()))
        try:
            body = await http.read() if http.body_exists else b""
        except web.HTTPRequestEntityTooLarge:
            return _plain(http, error_response(None, too_large()))
        answer = await self._handle(
            Request(
                method=http.method,
                path=http.rel_url.raw_path,
                query=tuple(http.rel_url.query.items()),
                headers=tuple(http.headers.items()),
                body=body,
                peer=_peer(http),
            )
        )
        if answer.stream is None:
            return _plain(http, answer)
        return await self._stream(http, answer)

    async def _stream(self, http: web.BaseRequest, answer: Response) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_headers(answer))
        assert answer.stream is not None
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            await response.prepare(http)
            await _pour(response, answer.stream)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            task.uncancel()
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
        except ConnectionError:
            pass  # the client left: nobody is there to be told
        finally:
            self._streams.discard(task)
        return response


async def _pour(response: web.StreamResponse, stream: AsyncIterator[bytes]) -> None:
    try:
        async for chunk in stream:
            await response.write(chunk)
        await response.write_eof()
    finally:
        if isasyncgen(stream):
            await stream.aclose()


def front_context(current: CurrentContext) -> ssl.SSLContext:
    """Return a context that hands every handshake to the current one: certificates change without a restart."""
    front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def choose(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = current()

    front.sni_callback = choose
    front.minimum_version = ssl.TLSVersion.TLSv1_2
    front.set_alpn_protocols(["http/1.1"])
    # Which certificate is asked of the client is settled before the callback: ask for one, judge it later.
    front.verify_mode = ssl.CERT_OPTIONAL
    front.verify_flags |= _NO_CHECK_TIME
    return front


def serving_context(certificate_file: str, key_file: str, client_roots_pem: bytes) -> ssl.SSLContext:
    """Return a context that shows the certificate and accepts client certificates of the given CAs.

    A client without one is let through as a stranger. Dates are judged by the authenticator, for an
    expired certificate is a refused identity (401) rather than a broken connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate_file, key_file)
    context.load_verify_locations(cadata=client_roots_pem.decode("ascii"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= _NO_CHECK_TIME
    context.set_alpn_protocols(["http/1.1"])
    return context


_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME


class _BoundedServer(web.Server):
    """Counts connections and turns away those beyond the limit."""

    def __init__(
        self, serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], limits: ListenerLimits
    ) -> None:
        super().__init__(
            serve,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=limits.keepalive_seconds,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=256,
        )
        self._limit = limits.connections

    def __call__(self) -> Any:
        if len(self.connections) >= self._limit:
            return _TurnAway()
        return super().__call__()


class _TurnAway(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _request(*arguments: Any) -> web.BaseRequest:
    message, payload, protocol, writer, task = arguments[:5]
    return web.BaseRequest(
        message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=MAX_BODY_BYTES
    )


def _plain(http: web.BaseRequest, answer: Response) -> web.Response:
    body = b"" if http.method == "HEAD" else answer.body
    return web.Response(status=answer.status, headers=_headers(answer), body=body)


def _headers(answer: Response) -> Any:
    from multidict import CIMultiDict  # noqa: PLC0415 - a part of aiohttp

    return CIMultiDict(answer.headers)


def _peer(http: web.BaseRequest) -> Peer:
    secure = http.get_extra_info("ssl_object")
    return Peer(http.remote or "", _chain(secure) if secure is not None else ())


def _chain(secure: ssl.SSLObject) -> tuple[bytes, ...]:
    leaf = secure.getpeercert(binary_form=True)
    if leaf is None:
        return ()
    unverified = getattr(secure, "get_unverified_chain", None)  # Python 3.13
    if unverified is None:
        return (leaf,)
    return tuple(bytes(der) for der in unverified()) or (leaf,)
