"""Parses requests from the bytes of one connection; the only module here that uses the parser library."""

from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import parse_qsl

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from msgspec import Struct

from watchword.api.http import Peer, Request

MAX_HEADERS = 256
CHUNK_OVERHEAD = 16
"""So many bytes around each chunk are free: its size in hexadecimal and two line ends."""


class RequestLimits(Struct, frozen=True):
    """How large the parts of a request may be."""

    header_bytes: int
    body_bytes: int


class ParsedRequest(Struct, frozen=True):
    """One complete request, and whether its connection stays open."""

    request: Request
    keep_alive: bool
    chunks: bool  # whether the client supports a chunked response


class RejectedRequest(Struct, frozen=True):
    """Bytes that are not an acceptable request; whatever follows them is ignored."""

    status: int
    reason: str


class _Stop(Exception):
    """Ends parsing."""


class RequestParser:
    """Parses requests from bytes in any chunks; stops after a refusal.

    The methods whose names begin with `on_` are called by the parser.
    """

    def __init__(self, limits: RequestLimits, peer: Peer) -> None:
        self._limits = limits
        self._peer = peer
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        self._found: list[ParsedRequest | RejectedRequest] = []
        self._refused = False
        self._reset()

    def _reset(self) -> None:
        self._begun = False
        self._head_complete = False
        self._wants_continue = False
        self._overhead = 0  # bytes since the request began that are not its body: head, chunk lines, trailers
        self._head_bytes = 0
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()

    @property
    def is_idle(self) -> bool:
        return not self._begun

    @property
    def is_head_complete(self) -> bool:
        return self._head_complete

    def feed(self, data: bytes) -> list[ParsedRequest | RejectedRequest]:
        """Return the requests that these bytes complete; a refusal comes last."""
        if self._refused or self._parser is None:
            return []
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._refused = True  # the request is processed as if no upgrade was offered, and is the last
        except HttpParserError:
            self._refuse(400, "Bad Request")
        if self._overhead > self._limits.header_bytes:
            # The parser keeps a header or trailer until it ends: one without end must not grow.
            self._refuse(431, "Request Header Fields Too Large")
        found, self._found = self._found, []
        return found

    def close(self) -> None:
        """Ignore whatever follows, and drop the parser, which refers back to this object."""
        self._parser = None

    def take_continue(self) -> bool:
        """Whether the client waits for `100 Continue`; true once per request."""
        wanted, self._wants_continue = self._wants_continue, False
        return wanted

    def on_message_begin(self) -> None:
        overhead = self._overhead
        self._reset()
        self._begun, self._overhead = True, overhead

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes | None) -> None:
        """Store one header; trailers are counted and dropped."""
        value = value or b""
        self._count(len(name) + len(value))
        if self._head_complete:
            return
        if len(self._headers) >= MAX_HEADERS:
            self._stop(431, "Request Header Fields Too Large")
        self._headers.append((name.decode("ascii", "replace"), value.decode("utf-8", "replace")))

    def on_headers_complete(self) -> None:
        self._head_complete = True
        parser = self._parser
        assert parser is not None, "it calls this method"
        version = parser.get_http_version()
        if version not in {"1.1", "1.0"}:
            self._stop(505, "HTTP Version Not Supported")
        headers = {name.lower(): value for name, value in self._headers}
        hosts = sum(name.lower() == "host" for name, _ in self._headers)
        upgrade = parser.should_upgrade()
        if is_ambiguous(headers, version, upgrade=upgrade) or (version == "1.1" and hosts != 1):
            self._stop(400, "Bad Request")
        if int(headers.get("content-length", "0")) > self._limits.body_bytes:
            self._stop(413, "Request Entity Too Large")
        self._wants_continue = headers.get("expect", "").lower() == "100-continue"

    def on_chunk_header(self) -> None:
        """Allow each chunk its header; longer extensions and padding are counted."""
        self._overhead = max(0, self._overhead - CHUNK_OVERHEAD)

    def on_body(self, body: bytes) -> None:
        self._wants_continue = False
        self._overhead -= len(body)
        self._body += body  # not a list of chunks: a client that sends single bytes must not cost more memory
        if len(self._body) > self._limits.body_bytes:
            self._stop(413, "Request Entity Too Large")

    def on_message_complete(self) -> None:
        parser = self._parser
        assert parser is not None, "it calls this method"
        place = split_target(self._target)
        if place is None:
            self._stop(400, "Bad Request")
        path, query = place
        request = Request(
            parser.get_method().decode("ascii"), path, query, tuple(self._headers), bytes(self._body), self._peer
        )
        chunks = parser.get_http_version() == "1.1"
        # A client that offers another protocol sends no further HTTP requests.
        keep_alive = chunks and parser.should_keep_alive() and not parser.should_upgrade()
        self._found.append(ParsedRequest(request, keep_alive, chunks))
        self._reset()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.header_bytes:
            self._stop(431, "Request Header Fields Too Large")

    def _stop(self, status: int, reason: str) -> NoReturn:
        self._refuse(status, reason)
        raise _Stop

    def _refuse(self, status: int, reason: str) -> None:
        if not self._refused:
            self._refused = True
            self._found.append(RejectedRequest(status, reason))


def is_ambiguous(headers: Mapping[str, str], version: str, *, upgrade: bool) -> bool:
    """Whether another server could find the end of this request elsewhere; header names are in lower case."""
    encoding = headers.get("transfer-encoding")
    if encoding is not None and (version == "1.0" or encoding.strip().lower() != "chunked"):
        return True
    # The parser hands a body after an upgrade to the other protocol.
    return upgrade and (encoding is not None or headers.get("content-length", "0") != "0")


def split_target(target: bytes) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """Return the path, still percent-encoded, and the query, decoded; None when the target has no path."""
    text = target.decode("utf-8", "replace")
    if not text.startswith("/"):
        scheme, found, rest = text.partition("://")
        if not found or scheme.lower() not in {"http", "https"}:
            return None
        authority, slash, rest = rest.partition("/")
        text = f"/{rest}" if slash else f"/?{authority.partition('?')[2]}"
    path, _, query = text.partition("#")[0].partition("?")
    return path, tuple(parse_qsl(query, keep_blank_values=True)) if query else ()
