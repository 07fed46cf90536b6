"""Malformed and ambiguous responses on real sockets: an error, and the connection is not used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from watchword.api.http import Request
from watchword.kube.credentials import FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import MalformedResponse, Unreachable
from watchword.kube.https_transport import HttpsTransport

pytestmark = pytest.mark.real_time

OK = b"HTTP/1.1 200 OK\r\n"
FORGED = OK + b"Content-Length: 6\r\n\r\nforged"
CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass
class ScriptedServer:
    """Sends the same bytes to each request, and counts connections."""

    answer: bytes
    connections: int = 0
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def scripted(answer: bytes) -> AsyncIterator[tuple[ScriptedServer, HttpsTransport]]:
    script = ScriptedServer(answer)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = HttpsTransport(Endpoint(script.url), FixedCredential())
    try:
        yield script, transport
    finally:
        await transport.close()
        server.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", id="line feeds without returns"),
        pytest.param(OK + b"A: b\r\n c\r\nContent-Length: 0\r\n\r\n", id="a header continued on the next line"),
        pytest.param(OK + b"Content-Length : 0\r\n\r\n", id="a space before the colon"),
        pytest.param(OK + b"A: \0\r\n\r\n", id="a zero byte in a value"),
        pytest.param(OK + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", id="the same length twice"),
        pytest.param(OK + b"Content-Length: 0, 0\r\n\r\n", id="two lengths in one header"),
        pytest.param(OK + b"Content-Length: +0\r\n\r\n", id="a length with a sign"),
        pytest.param(OK + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="length and chunks"),
        pytest.param(OK + b"Transfer-Encoding: identity\r\n\r\n", id="an encoding that was withdrawn"),
        pytest.param(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", id="compressed chunks"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="chunked twice"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="chunks in HTTP/1.0"),
        pytest.param(CHUNKS + b"0x1\r\na\r\n0\r\n\r\n", id="a chunk size with a prefix"),
        pytest.param(CHUNKS + b"1\r\nab\r\n0\r\n\r\n", id="a chunk longer than its size"),
        pytest.param(CHUNKS + b"0\r\nContent-Length: 5\r\n\r\n", id="a length in a trailer"),
        pytest.param(CHUNKS + b"0\r\nA: " + b"x" * 600_000, id="a trailer without end"),
        pytest.param(CHUNKS + b"1;" + b"x" * 600_000, id="a chunk extension without end"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 30_000, id="notices without end"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", id="a status of two digits"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", id="an upgrade"),
    ],
)  # fmt: skip
async def test_malformed_response_is_an_error(answer: bytes) -> None:
    async with scripted(answer) as (_, transport):
        with pytest.raises((MalformedResponse, Unreachable)):
            await transport.send(Request("GET", "/"))


async def test_second_response_to_one_request_is_never_the_answer_to_the_next() -> None:
    async with scripted(OK + b"Content-Length: 4\r\n\r\nreal" + FORGED) as (server, transport):
        answers = [await transport.send(Request("GET", "/")) for _ in range(2)]

    assert [answer.body for answer in answers] == [b"real", b"real"]
    assert server.connections == 2


async def test_body_of_a_response_to_head_is_never_the_answer_to_the_next_request() -> None:
    async with scripted(OK + b"Content-Length: 65\r\n\r\n" + FORGED) as (server, transport):
        answer = await transport.send(Request("HEAD", "/"))
        server.answer = OK + b"Content-Length: 4\r\n\r\nreal"
        second = await transport.send(Request("GET", "/"))

    assert (answer.body, second.body) == (b"", b"real")
