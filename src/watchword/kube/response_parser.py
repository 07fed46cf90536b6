"""Parses the responses of one connection; the only module here that uses the parser library."""

from __future__ import annotations

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEADERS = 256
HEAD_SIZE_LIMIT = 256 * 1024


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
        self._fed = 0  # bytes of a head that is not complete yet

    def feed(self, data: bytes) -> None:
        """Parse received bytes; raises `HttpProtocolError`."""
        if not self.has_head:
            self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as cause:
            raise HttpProtocolError(str(cause)) from cause
        if not self.has_head and self._fed > HEAD_SIZE_LIMIT:
            raise HttpProtocolError("the response headers are too long")

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
        """Store one header."""
        if len(self.headers) >= MAX_HEADERS:
            raise HttpProtocolError("the response has too many headers")
        lower = name.lower()
        self._is_framed = self._is_framed or lower == b"content-length"
        if lower == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                raise HttpProtocolError("the response has an encoding that was not requested")
            self._is_framed = True
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Decide how the body is delimited."""
        self.status = self._parser.get_status_code()
        self.keeps_alive = self._parser.should_keep_alive()
        self.has_head = self.status >= 200  # an informational response precedes the real one
        if self.status in (204, 304):
            self._is_framed = True
        if self.has_head and not self._has_body:
            self.is_complete, self.keeps_alive = True, False  # the parser would take the next response for the body

    def on_body(self, body: bytes) -> None:
        """Store one chunk of the body."""
        self._body.append(body)
        self.buffered += len(body)

    def on_message_complete(self) -> None:
        """Complete the response, unless it was only informational (1xx)."""
        if self.has_head:
            self.is_complete = True
        else:
            self.headers.clear()
            self._is_framed = False
