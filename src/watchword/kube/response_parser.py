"""Parses the responses of one connection; the only module here that uses the parser library."""

from __future__ import annotations

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
        self._parser = HttpResponseParser(self)
        self._body: list[bytes] = []
        self._is_framed = False  # whether the response itself says where it ends
        self._is_chunked = False
        self._overhead = 0  # bytes that are not the body: head, chunk lines, trailers

    def feed(self, data: bytes) -> None:
        """Parse received bytes; raises `HttpProtocolError`."""
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
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

    def take(self) -> bytes:
        """Return and release the received part of the body."""
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
        """Decide how the body is delimited."""
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0") or (self._is_chunked and version == "1.0"):
            raise HttpProtocolError("the answer is not HTTP/1.1")
        self.status = self._parser.get_status_code()
        self.keeps_alive = self._parser.should_keep_alive()
        self.has_head = self.status >= 200  # an informational response precedes the real one
        if self.status in (204, 304):
            self._is_framed = True
        if self.has_head and not self._has_body:
            self.is_complete, self.keeps_alive = True, False  # the parser would take the next response for the body

    def on_chunk_header(self) -> None:
        """Forgive a chunk the bytes that it needs; extensions and padding beyond that add up."""
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
