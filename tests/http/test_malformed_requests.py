"""Malformed and ambiguous requests on real sockets: one refusal, and nothing after it is a request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from watchword.api.http import Request, Response
from watchword.apiserver.listener import API_LIMITS
from watchword.http.server import HttpServer
from watchword.runtime.health import LIMITS as HEALTH_LIMITS

pytestmark = pytest.mark.real_time

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


def posted(*headers: bytes, body: bytes = b"") -> bytes:
    return HEAD + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body


def chunks(body: bytes) -> bytes:
    return posted(b"Transfer-Encoding: chunked", body=body)


async def count_accepted(writer: asyncio.StreamWriter) -> int:
    """Send without end; return how many bytes were taken before the connection was closed."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536
    return sent


@dataclass
class Target:
    """A server that remembers what it was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def handle(self, request: Request) -> Response:
        self.asked.append(request.path)
        request.form()
        return Response(200)

    async def answers(self, sent: bytes) -> list[bytes]:
        """Send bytes, and return the status of every answer until the server closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(30):
            received = await reader.read()
        writer.close()
        return [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture(params=["api", "health"])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    target = Target()
    server = HttpServer(target.handle, API_LIMITS if request.param == "api" else HEALTH_LIMITS)
    target.port = await server.start("127.0.0.1", 0)
    yield target
    await server.stop()


@pytest.mark.parametrize(
    "sent",
    [
        # Where a line ends
        pytest.param(b"GET / HTTP/1.1\nHost: x\n\n", id="line feeds without returns"),
        pytest.param(b"GET / HTTP/1.1\rHost: x\r\r", id="returns without line feeds"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", id="one line feed without a return"),
        pytest.param(b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", id="first header continues the request line"),
        pytest.param(posted(b"A: b", b" c"), id="a header continued on the next line"),
        # Names and values
        pytest.param(posted(b"Content-Length : 0"), id="a space before the colon"),
        pytest.param(posted(b": b"), id="a header without a name"),
        pytest.param(posted(b"abc"), id="a header without a colon"),
        pytest.param(posted(b"A: b\0c"), id="a zero byte in a value"),
        pytest.param(posted(b"A\0: b"), id="a zero byte in a name"),
        pytest.param(posted(b"\xc3\xa9: b"), id="a name that is not ASCII"),
        # The request line
        pytest.param(b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", id="a zero byte in the target"),
        pytest.param(b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", id="a space in the target"),
        pytest.param(b"GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n", id="tabs in the request line"),
        pytest.param(b"get / HTTP/1.1\r\nHost: x\r\n\r\n", id="a method in lower case"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
        pytest.param(b"GET / HTTP/1.10\r\nHost: x\r\n\r\n", id="a version of three digits"),
        pytest.param(b"GET / HTTP/1.2\r\nHost: x\r\n\r\n", id="a version that does not exist"),
        # Host
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no host"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", id="two hosts"),
        # Content-Length
        pytest.param(posted(b"Content-Length: +0"), id="a length with a sign"),
        pytest.param(posted(b"Content-Length: 0, 0"), id="two lengths in one header"),
        pytest.param(posted(b"Content-Length: 0", b"Content-Length: 0"), id="the same length twice"),
        pytest.param(posted(b"Content-Length: 0", b"Content-Length: 5"), id="two different lengths"),
        pytest.param(posted(b"Content-Length: 0x0"), id="a hexadecimal length"),
        pytest.param(posted(b"Content-Length: 0 0"), id="a space in the length"),
        pytest.param(posted(b"Content-Length: "), id="an empty length"),
        pytest.param(posted(b"Content-Length: 18446744073709551616"), id="a length of 65 bits"),
        # Transfer-Encoding
        pytest.param(posted(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n"), id="both"),
        pytest.param(posted(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), id="reversed"),
        pytest.param(posted(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), id="an unknown encoding"),
        pytest.param(posted(b"Transfer-Encoding: identity"), id="an encoding that was withdrawn"),
        pytest.param(posted(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), id="compressed chunks"),
        pytest.param(posted(b"Transfer-Encoding: chunked, gzip", body=b"0\r\n\r\n"), id="chunked is not last"),
        pytest.param(
            posted(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), id="chunked twice"
        ),
        pytest.param(
            posted(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=b"0\r\n\r\n"), id="two encodings"
        ),
        pytest.param(posted(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"), id="a vertical tab before chunked"),
        pytest.param(
            b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="chunks in HTTP/1.0"
        ),
        # Chunks
        pytest.param(chunks(b"1\na\n0\n\n"), id="chunk lines end in line feeds"),
        pytest.param(chunks(b"0x1\r\na\r\n0\r\n\r\n"), id="a chunk size with a prefix"),
        pytest.param(chunks(b"-1\r\na\r\n0\r\n\r\n"), id="a negative chunk size"),
        pytest.param(chunks(b"fffffffffffffffff\r\na\r\n0\r\n\r\n"), id="a chunk size of 68 bits"),
        pytest.param(chunks(b"1;a\nb\r\na\r\n0\r\n\r\n"), id="a line feed in a chunk extension"),
        pytest.param(chunks(b"0\r\nContent-Length: 50\r\n\r\n"), id="a length in a trailer"),
        pytest.param(chunks(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"), id="an encoding in a trailer"),
        # Upgrades
        pytest.param(
            posted(b"Connection: Upgrade", b"Upgrade: x", b"Content-Length: 5", body=b"hello"), id="upgrade with a body"
        ),
    ],
)  # fmt: skip
async def test_request_is_refused_and_hides_no_other(target: Target, sent: bytes) -> None:
    answers = await target.answers(sent + SMUGGLED)

    assert (answers, target.asked) == ([b"400"], [])


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(b"GET /\r\n\r\n", [b"505"], id="HTTP/0.9"),
        pytest.param(b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", [b"431"], id="a long target"),
        pytest.param(posted(b"A: " + b"x" * 70_000), [b"431"], id="a long header"),
        pytest.param(posted(*[b"A: b"] * 300), [b"431"], id="many headers"),
        pytest.param(posted(b"Content-Length: 4000000"), [b"413"], id="a large body"),
    ],
)
async def test_request_that_is_too_large_is_refused(target: Target, sent: bytes, statuses: list[bytes]) -> None:
    assert (await target.answers(sent + SMUGGLED), target.asked) == (statuses, [])


async def test_what_follows_the_last_request_of_a_connection_is_not_read(target: Target) -> None:
    answers = await target.answers(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + SMUGGLED)

    assert (answers, target.asked) == ([b"200"], ["/"])


async def test_bytes_after_an_upgrade_are_not_requests(target: Target) -> None:
    answers = await target.answers(
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + SMUGGLED
    )

    assert (answers, target.asked) == ([b"200"], ["/"])


@pytest.mark.parametrize("target", ["api"], indirect=True)
async def test_form_with_too_many_fields_is_refused(target: Target) -> None:
    form = b"&".join(b"a=b" for _ in range(5_000))

    assert await target.answers(posted(b"Content-Length: %d" % len(form), body=form)) == [b"400"]


async def test_client_that_goes_on_sending_after_a_refusal_is_cut_off(target: Target) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", target.port)
    writer.write(posted(b"A: " + b"x" * 70_000))

    assert await count_accepted(writer) < 64 * 1024 * 1024
    writer.close()
