"""One connection to a server: sends a request and reads its response with backpressure."""

import asyncio
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEADERS = 256
HEAD_SIZE_LIMIT = 256 * 1024
CHUNK_OVERHEAD = 16
"""So many bytes around each chunk are free: its size in hexadecimal and two line ends."""


class HttpProtocolError(Exception):
    """The bytes are not a valid HTTP response; the connection cannot be used any more."""


class ResponseParser:
    """One response, in whatever chunks its bytes arrive; with `has_body=False` it ends with its head.

    The methods whose names begin with `on_` are called by the parser.
    """

    def __init__(self, *, has_body: bool = True) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.buffered = 0  # bytes of the body that were not taken yet
        self.has_head = False
        self.is_complete = False
        self.keeps_alive = False
        self._has_body = has_body
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._body: list[bytes] = []
        self._is_framed = False  # whether the response itself says where it ends
        self._is_chunked = False
        self._overhead = 0  # bytes that are not the body: head, chunk lines, trailers

    def feed(self, data: bytes) -> None:
        self._overhead += len(data)
        try:
            self._running.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as cause:
            raise HttpProtocolError(str(cause)) from cause
        if self._overhead > HEAD_SIZE_LIMIT:
            # The parser keeps a header or trailer until it ends: one without end must not grow.
            raise HttpProtocolError("the headers or trailers of the answer have no end")

    def end(self) -> None:
        """Handle the end of input: a response without a declared length is then complete."""
        self.keeps_alive = False
        if self.has_head and not self._is_framed:
            self.is_complete = True
        self.release()

    def release(self) -> None:
        """Drop the parser, which refers back to this object: garbage in cycles stays for long."""
        self._parser = None

    @property
    def _running(self) -> HttpResponseParser:
        if self._parser is None:
            raise HttpProtocolError("the server sent data after the end of its response")
        return self._parser

    def take(self) -> bytes:
        data = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self.buffered = 0
        return data

    def on_message_begin(self) -> None:
        """Refuse unrequested data: it would be taken for the response to the next request."""
        if self.is_complete:
            raise HttpProtocolError("the server sent more than one response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header; trailers are dropped."""
        if self.has_head:
            return
        if len(self.headers) >= MAX_HEADERS:
            raise HttpProtocolError("the response has too many headers")
        lower = name.lower()
        self._is_framed = self._is_framed or lower == b"content-length"
        if lower == b"transfer-encoding":
            if value.strip().lower() != b"chunked" or self._is_chunked:
                raise HttpProtocolError("the answer has a transfer encoding other than chunked")
            self._is_chunked = True
            self._is_framed = True
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        version = self._running.get_http_version()
        if version not in ("1.1", "1.0") or (self._is_chunked and version == "1.0"):
            raise HttpProtocolError("the answer is not HTTP/1.1")
        self.status = self._running.get_status_code()
        self.keeps_alive = self._running.should_keep_alive()
        self.has_head = self.status >= 200  # an informational response precedes the real one
        if self.status in (204, 304):
            self._is_framed = True
        if self.has_head and not self._has_body:
            self.is_complete, self.keeps_alive = True, False  # the parser would take the next response for the body

    def on_chunk_header(self) -> None:
        """Allow each chunk its header; longer extensions and padding are counted."""
        self._overhead = max(0, self._overhead - CHUNK_OVERHEAD)

    def on_body(self, body: bytes) -> None:
        """Keep one piece of the body; the response to HEAD has none."""
        self._overhead -= len(body)
        if not self._has_body:
            return
        self._body.append(body)
        self.buffered += len(body)

    def on_message_complete(self) -> None:
        """Complete the response, unless it was only informational (1xx)."""
        if self.has_head:
            self.is_complete = True
        else:
            self.headers.clear()
            self._is_framed = self._is_chunked = False


READ_AHEAD = 256 * 1024


class ConnectionLost(Exception):
    """The connection ended before the response began; the cause, if any is known, is its `__cause__`."""


class ResponseTruncated(Exception):
    """The connection ended in the middle of the response."""


class ClientConnection(asyncio.Protocol):
    """Carries one request at a time; the caller reads the response to its end or aborts the connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._response: ResponseParser | None = None
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self.is_open = False

    async def send_request(self, request: bytes) -> ResponseParser:
        """Send a request and return its response as soon as the headers arrived; `chunk` returns the body."""
        if not self.is_open:
            raise ConnectionLost from self._error
        if self._response is not None:
            self._response.release()
        self._response = ResponseParser(has_body=not request.startswith(b"HEAD "))
        self.transport.write(request)
        while not self._response.has_head:
            self._raise_error(ConnectionLost)
            await self._wait_for_data()
        return self._response

    async def chunk(self) -> bytes:
        """Return the next chunk of the response's body, empty at its end."""
        response = self._response
        assert response is not None, "there is no response before a request"
        while not response.buffered:
            if response.is_complete:
                return b""
            self._raise_error(ResponseTruncated)
            await self._wait_for_data()
        if self._paused and self.is_open:
            self._paused = False
            self.transport.resume_reading()
        return response.take()

    @property
    def is_reusable(self) -> bool:
        response = self._response
        return self.is_open and (
            response is None or (response.is_complete and response.keeps_alive and not response.buffered)
        )

    def abort(self) -> None:
        """Close the connection without a TLS shutdown, which may outlast a command's event loop."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "the connection is not connected"
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; called again when TLS starts on the connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        response = self._response
        try:
            if response is None:
                raise HttpProtocolError("the server sent data before a request was made")
            response.feed(data)
        except HttpProtocolError as error:
            self._end(error)
            self.abort()
            return
        if response.buffered > READ_AHEAD and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._notify()

    def eof_received(self) -> None:
        """Let the transport close after the server's end of stream."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, error: BaseException | None) -> None:
        self.is_open = False
        if self._error is None:
            self._error = error
        if self._response is not None:
            self._response.end()
        self._notify()

    def _raise_error(self, otherwise: type[Exception]) -> None:
        if isinstance(self._error, HttpProtocolError):
            raise self._error
        if not self.is_open:
            raise otherwise from self._error

    async def _wait_for_data(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
