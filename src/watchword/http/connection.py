"""One client connection: its requests are processed one after the other, in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from inspect import isasyncgen
from typing import Any, Protocol, cast

from watchword.api.http import InvalidForm, Peer, Request, Response
from watchword.http.limits import ServerLimits
from watchword.http.request_parser import ParsedRequest, RejectedRequest, RequestLimits, RequestParser

CHUNK = b"%x\r\n%b\r\n"
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LARGE = 64 * 1024
"""A body of at least this size is written separately: copying it behind its head would hold it twice."""
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_BREAKS = str.maketrans("\r\n\0", "   ")
log = logging.getLogger(__name__)
RequestHandler = Callable[[Request], Awaitable[Response]]
RejectionHandler = Callable[[RejectedRequest], Response]
LINGER = 0.5
"""How long a rejected client may go on sending: cut off immediately, it would never read the response."""
LINGER_BYTES = 1024 * 1024
"""How much of that is read."""
CLOSE_SECONDS = 0.25
"""How long a client may take to confirm the end of a connection when the server stops."""


class ConnectionDeadlines:
    """The deadlines of one connection: head, body, idle time, and progress of what is written."""

    def __init__(self, limits: ServerLimits, now: float) -> None:
        self._limits = limits
        self._since = now
        self._is_first = True  # no request has come yet
        self._written: tuple[float, int] | None = None  # when the client was last seen reading, and what was left

    def restart(self, now: float, *, is_first: bool = False) -> None:
        """Count from now: a request begins, or the connection becomes idle."""
        self._since = now
        self._is_first = is_first

    def writable(self) -> None:
        self._written = None

    def is_read_overdue(self, now: float, request: RequestParser) -> bool:
        if request.is_idle and not self._is_first:
            patience = self._limits.keepalive_seconds
        elif not request.is_head_complete:
            patience = self._limits.header_seconds
        else:
            patience = self._limits.request_seconds
        return now - self._since > patience

    def is_write_overdue(self, now: float, left: int) -> bool:
        """Whether the client reads too slowly; asked again and again with the bytes that are still to be written."""
        if self._written is None:
            self._written = now, left
            return False
        since, then = self._written
        waited = now - since
        if waited <= self._limits.write_seconds:
            return False
        self._written = now, left
        return then - left < waited * self._limits.write_bytes_per_second


class Handshake:
    """Hands a socket to a protocol once TLS is established; `failed` is called when that does not come about."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext | None, patience: float) -> None:
        self._connected = connected
        self._context = context
        self._patience = patience if context is not None else None
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False

    def begin(self, protocol: asyncio.Protocol, failed: Callable[[], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(protocol, failed))

    def cancel(self) -> None:
        if self._has_begun and self._task is not None:
            self._task.cancel()
        else:
            self._connected.close()  # the task has not had its first step

    async def _run(self, protocol: asyncio.Protocol, failed: Callable[[], None]) -> None:
        if self._connected.fileno() < 0:
            return
        self._has_begun = True
        established = False
        # OSError: the client has gone, was too slow, or does not speak TLS.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, self._connected, ssl=self._context, ssl_handshake_timeout=self._patience
            )
            established = True
        if not established:
            failed()


def head(answer: Response, framing: str, date: str, *, keep_alive: bool) -> bytes:
    """Return the head of a response; `framing` is the header that delimits its body, or empty."""
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, '')}\r\nDate: {date}\r\n{framing}"]
    # Client input may be part of a header: line breaks in it must not end the header.
    for name, value in answer.headers:
        lines.append(f"{name}: {value if value.isprintable() else value.translate(_BREAKS)}\r\n")
    lines.append("\r\n" if keep_alive else "Connection: close\r\n\r\n")
    return "".join(lines).encode("utf-8", "replace")


def encode_response(answer: Response, date: str, *, keep_alive: bool, with_body: bool = True) -> bytes:
    """Return a response whose body is complete; a HEAD request gets the head only."""
    start = head(answer, f"Content-Length: {len(answer.body)}\r\n", date, keep_alive=keep_alive)
    return start + answer.body if with_body else start


def encode_response_parts(answer: Response, date: str, *, keep_alive: bool, with_body: bool) -> tuple[bytes, ...]:
    """Return a response whose body is complete, as the chunks to write: joined, or a large body separately."""
    if not with_body or len(answer.body) < LARGE:
        return (encode_response(answer, date, keep_alive=keep_alive, with_body=with_body),)
    return encode_response(answer, date, keep_alive=keep_alive, with_body=False), answer.body


class ServerContext(Protocol):
    """What the connections of one listener share."""

    handle: RequestHandler
    reject: RejectionHandler
    limits: ServerLimits
    reading: RequestLimits

    def authenticate(self, connection: ServerConnection, user: str) -> None: ...

    def unregister(self, connection: ServerConnection) -> None: ...

    def date(self) -> str: ...


class ServerConnection(asyncio.Protocol):
    """Parses no further than the request that is processed, and writes no faster than the client reads."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._handshake: Handshake | None = None
        self._connected = False
        self._waiting: deque[ParsedRequest | RejectedRequest] = deque()
        self._task: asyncio.Task[None] | None = None
        self._streaming = False
        self._finishing = False
        self._paused = False
        self._writable: asyncio.Future[None] | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._discarded: int | None = None  # bytes that came after a rejected request
        self._deadlines = ConnectionDeadlines(server.limits, self._loop.time())

    def establish(self, handshake: Handshake) -> None:
        """Begin the handshake; a client that does not finish it in time is cut."""
        self._handshake = handshake
        handshake.begin(self, lambda: self._server.unregister(self))

    def is_overdue(self, now: float) -> bool:
        if not self._connected:
            return False  # the handshake has a deadline of its own
        if self._writable is not None:
            return self._deadlines.is_write_overdue(now, self._transport.get_write_buffer_size())
        return self._task is None and self._deadlines.is_read_overdue(now, self._reader)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._reader = RequestParser(self._server.reading, peer_of(transport))
        self._deadlines.restart(self._loop.time(), is_first=True)
        self._connected = True
        self._handshake = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the contract
        self._server.unregister(self)
        if self._ending is not None:
            self._ending.cancel()
        self._waiting.clear()
        task, self._task = self._task, None  # cycles that were left here kept each closed connection with its TLS state
        if task is not None:
            task.cancel()
        self._reader.close()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self._transport.pause_reading()
            return
        was_idle = self._reader.is_idle
        self._waiting.extend(self._reader.feed(data))
        if was_idle and not self._reader.is_idle:
            self._deadlines.restart(self._loop.time())
        if self._task is None:
            self._next()
        elif self._waiting and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Pause writing: the client reads more slowly than we write."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        self._deadlines.writable()

    def finish(self) -> None:
        self._finishing = True
        if not self._connected:
            self.abort()
        elif self._task is None:
            self._close()
        elif self._streaming:
            self._task.cancel()

    def abort(self) -> None:
        if self._connected:
            self._transport.abort()
        elif self._handshake is not None:
            self._handshake.cancel()

    def _close(self) -> None:
        """Close politely; cut a client that does not read the rest, or does not confirm the end."""
        self._transport.close()
        self._end_after(CLOSE_SECONDS if self._finishing else self._server.limits.write_seconds, self._transport.abort)

    def _end_after(self, seconds: float, end: Callable[[], None]) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = self._loop.call_later(seconds, end)

    def _next(self) -> None:
        if self._waiting:
            first = self._waiting.popleft()
            if isinstance(first, RejectedRequest):
                self._reject(first)
            else:
                self._task = self._loop.create_task(self._serve(first))
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._reader.take_continue():
            self._transport.write(CONTINUE)

    def _reject(self, rejected: RejectedRequest) -> None:
        self._transport.write(encode_response(self._server.reject(rejected), self._server.date(), keep_alive=False))
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._discarded = 0
        self._end_after(LINGER, self._transport.abort)

    async def _serve(self, received: ParsedRequest) -> None:
        try:
            try:
                answer = await self._server.handle(received.request)
            except InvalidForm:
                answer = self._server.reject(RejectedRequest(400, "Bad Request"))
            if answer.user:
                self._server.authenticate(self, answer.user)
            keep_alive = received.keep_alive and not self._finishing
            if answer.stream is None:
                with_body = received.request.method != "HEAD"
                for piece in encode_response_parts(
                    answer, self._server.date(), keep_alive=keep_alive, with_body=with_body
                ):
                    self._transport.write(piece)
            else:
                await self._stream(answer, received, keep_alive=keep_alive)
            await self._drained()
        except Exception:
            log.exception("a response was interrupted")
            keep_alive = False
        self._task = None
        self._deadlines.restart(self._loop.time())
        if keep_alive and not self._finishing:
            self._next()
        else:
            self._close()

    async def _stream(self, answer: Response, received: ParsedRequest, *, keep_alive: bool) -> None:
        stream: Any = answer.stream
        framing = "Transfer-Encoding: chunked\r\n" if received.chunks else ""
        self._transport.write(head(answer, framing, self._server.date(), keep_alive=keep_alive))
        self._streaming = True
        if answer.attach is not None and framing:
            answer.attach(self._push)
        try:
            async for chunk in stream:
                if chunk:
                    self._transport.write(CHUNK % (len(chunk), chunk) if framing else chunk)
                if self._writable is not None:
                    await self._drained()
        except asyncio.CancelledError:
            if self._task is None or not self._finishing or self._transport.is_closing():
                raise
            self._task.uncancel()  # the server stops: the client learns by this header that the connection ends
        finally:
            self._streaming = False
            if isasyncgen(stream):
                await stream.aclose()
        if framing:
            self._transport.write(LAST_CHUNK)

    def _push(self, chunk: bytes) -> bool:
        if not self._streaming or self._writable is not None or self._transport.is_closing():
            return False
        self._transport.write(CHUNK % (len(chunk), chunk))
        return True

    async def _drained(self) -> None:
        if self._writable is not None:
            await self._writable


def plain_text_rejection(rejected: RejectedRequest) -> Response:
    return Response(rejected.status, (("Content-Type", "text/plain"),), f"{rejected.status} {rejected.reason}".encode())


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    address = transport.get_extra_info("peername")
    secure = transport.get_extra_info("ssl_object")
    return Peer(str(address[0]) if address else "", _chain(secure) if secure is not None else ())


def _chain(secure: ssl.SSLObject) -> tuple[bytes, ...]:
    leaf = secure.getpeercert(binary_form=True)
    if leaf is None:
        return ()
    unverified = getattr(secure, "get_unverified_chain", None)  # Python 3.13
    if unverified is None:
        return (leaf,)
    return tuple(bytes(der) for der in unverified()) or (leaf,)
