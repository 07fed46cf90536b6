"""One HTTP request and response as plain data, shared by client and server."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeAlias
from urllib.parse import parse_qsl

from msgspec import Struct, field

from watchword.api.sensitive import HiddenFields

MOST_FORM_FIELDS = 64
Push: TypeAlias = Callable[[bytes], bool]
"""Writes one chunk of a stream at once; returns False, and writes nothing, while the client reads too slowly."""


class InvalidForm(Exception):
    """The body of a request is not an acceptable form; a server responds with 400."""


def first_header(headers: Iterable[tuple[str, str]], name: str) -> str:
    wanted = name.lower()
    length = len(wanted)
    for key, value in headers:
        if len(key) == length and key.lower() == wanted:
            return value
    return ""


class Peer(Struct, frozen=True):
    """The other end of the connection, as far as TLS has verified it."""

    address: str = ""
    certificate_chain: tuple[bytes, ...] = ()  # DER, leaf first; verified by the authenticator, not by TLS alone


class Request(HiddenFields, frozen=True):
    """An HTTP request without a socket."""

    hidden = ("body", "peer")

    method: str
    path: str  # percent-encoded, without the query
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    peer: Peer = field(default_factory=Peer)

    def header(self, name: str) -> str:
        return first_header(self.headers, name)

    def parameter(self, name: str) -> str:
        return next((value for key, value in self.query if key == name), "")

    def form(self) -> tuple[tuple[str, str], ...]:
        """Return the fields of an urlencoded body; raises `InvalidForm` when there are too many."""
        try:
            fields = parse_qsl(self.body.decode("utf-8", "replace"), True, max_num_fields=MOST_FORM_FIELDS)
        except ValueError as cause:
            raise InvalidForm(f"a form has more than {MOST_FORM_FIELDS} fields") from cause
        return tuple(fields)


class Response(HiddenFields, frozen=True):
    """An HTTP response: a complete body, or a stream of chunks for a watch."""

    hidden = ("body", "stream", "attach")

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    user: str = ""  # who authenticated; never sent, but a listener limits its connections by it
    attach: Callable[[Push], None] | None = None  # lets the stream push chunks while it is waited for

    def header(self, name: str) -> str:
        return first_header(self.headers, name)
