"""The socket: TLS with optional client certificates, limits, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from tests.http.test_malformed_requests import count_accepted

from watchword.api.http import Push, Request, Response
from watchword.apiserver.access.pki_directory import PkiDirectory
from watchword.apiserver.listener import API_LIMITS, api_listener
from watchword.http.limits import ServerLimits
from watchword.http.server import HttpServer, serving_context
from watchword.pki.certificates import parse_certificate
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject

pytestmark = pytest.mark.real_time


@dataclass
class ListenerHarness:
    """A listener with a scripted function behind it."""

    material: PkiDirectory
    folder: Path
    requests: list[Request] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    pushes: list[Push] = field(default_factory=list)
    port: int = 0

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        user = request.header("X-User")  # stands for any credential that was proved
        if request.path == "/watch":
            media = (("Content-Type", "application/json"),)
            return Response(200, media, stream=self.ticking(), attach=self.pushes.append, user=user)
        if request.path == "/flood":
            return Response(200, (("Content-Type", "application/json"),), stream=self.flooding())
        return Response(200, (("Content-Type", "text/plain"),), b"hello", user=user)

    async def flooding(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            self.ended.set()

    async def ticking(self) -> AsyncIterator[bytes]:
        try:
            yield b"one\n"
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    def client(self, user: str = "", *, lifetime: timedelta = timedelta(hours=1)) -> aiohttp.ClientSession:
        context = ssl.create_default_context(cadata=self.material.root_bundle.decode())
        if user:
            self.identify(context, user, lifetime)
        return aiohttp.ClientSession(f"https://127.0.0.1:{self.port}", connector=aiohttp.TCPConnector(ssl=context))

    def identify(self, context: ssl.SSLContext, user: str, lifetime: timedelta) -> None:
        key, now = PrivateKey.generate(), datetime.now(UTC)
        then = now if lifetime > timedelta(0) else now - timedelta(days=2)
        certificate = self.material.signing_authority().issue_client(
            key.public, CertificateSubject(user), now=then, lifetime=abs(lifetime)
        )
        (self.folder / "c.pem").write_bytes(certificate.pem + key.pem.reveal())
        context.load_cert_chain(self.folder / "c.pem")


@contextlib.asynccontextmanager
async def listening(
    folder: Path, limits: ServerLimits = API_LIMITS
) -> AsyncIterator[tuple[ListenerHarness, HttpServer]]:
    harness = ListenerHarness(PkiDirectory(folder / "pki", ("127.0.0.1",), lambda: datetime.now(UTC)), folder)
    listener = api_listener(harness.handle, lambda: harness.material.context, limits)
    harness.port = await listener.start("127.0.0.1", 0)
    try:
        yield harness, listener
    finally:
        await listener.stop()


async def test_client_without_a_certificate_may_connect(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, _), harness.client() as client, client.get("/x?a=1&a=2") as answer:
        assert await answer.text() == "hello"

    (request,) = harness.requests
    assert (request.method, request.path, request.query) == ("GET", "/x", (("a", "1"), ("a", "2")))
    assert request.peer.certificate_chain == ()
    assert request.peer.address == "127.0.0.1"


@pytest.mark.parametrize(
    "lifetime",
    [pytest.param(timedelta(hours=1), id="current"), pytest.param(timedelta(hours=-1), id="expired: judged later")],
)
async def test_a_client_certificate_reaches_the_authenticator(tmp_path: Path, lifetime: timedelta) -> None:
    async with (
        listening(tmp_path) as (harness, _),
        harness.client("alice", lifetime=lifetime) as client,
        client.get("/") as answer,
    ):
        assert answer.status == 200

    leaf = parse_certificate(harness.requests[0].peer.certificate_chain[0])
    assert leaf.common_name == "alice"


async def test_a_new_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, _):
        async with harness.client() as client, client.get("/"):
            pass
        other = PkiDirectory(tmp_path / "other", ("127.0.0.1",), lambda: datetime.now(UTC))
        harness.material = other

        async with harness.client() as client, client.get("/") as answer:
            assert answer.status == 200


async def test_client_that_goes_on_sending_after_a_refusal_is_cut_off(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, _):
        context = ssl.create_default_context(cadata=harness.material.root_bundle.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", harness.port, ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 70_000)

        assert await count_accepted(writer) < 64 * 1024 * 1024
        writer.close()


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    body = io.BytesIO(b"x" * (4 * 1024 * 1024))
    async with listening(tmp_path) as (harness, _), harness.client() as client, client.post("/", data=body) as answer:
        assert answer.status == 413
        assert (await answer.json())["reason"] == "RequestEntityTooLarge"

    assert harness.requests == []


async def test_headers_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    long = {"X-Long": "x" * 100_000}
    async with listening(tmp_path) as (harness, _), harness.client() as client, client.get("/", headers=long) as answer:
        assert answer.status == 431

    assert harness.requests == []


async def test_connections_beyond_the_limit_are_turned_away(tmp_path: Path) -> None:
    async with (
        listening(tmp_path, ServerLimits(connections=2)) as (harness, _),
        harness.client() as alice,
        alice.get("/watch", headers={"X-User": "alice"}) as first,
        harness.client() as bob,
        bob.get("/watch", headers={"X-User": "bob"}) as second,
        harness.client() as third,
    ):
        await first.content.readline()
        await second.content.readline()

        with pytest.raises(aiohttp.ClientError):
            await third.get("/")


async def silent_connections(harness: ListenerHarness, count: int) -> list[asyncio.StreamWriter]:
    return [(await asyncio.open_connection("127.0.0.1", harness.port))[1] for _ in range(count)]


async def test_silent_connections_keep_no_client_out(tmp_path: Path) -> None:
    async with listening(tmp_path, ServerLimits(connections=8)) as (harness, _), harness.client() as client:
        silent = await silent_connections(harness, 40)

        async with client.get("/") as answer:
            assert answer.status == 200
        for writer in silent:
            writer.close()


async def test_silent_connections_close_no_connection_of_a_user(tmp_path: Path) -> None:
    async with (
        listening(tmp_path, ServerLimits(connections=8)) as (harness, listener),
        harness.client() as client,
        client.get("/watch", headers={"X-User": "alice"}) as watch,
    ):
        await watch.content.readline()
        silent = await silent_connections(harness, 40)
        async with harness.client() as other, other.get("/"):
            assert not harness.ended.is_set()

        await listener.stop()

        assert await watch.content.read() == b""
        for writer in silent:
            writer.close()


async def test_client_that_reads_nothing_is_cut(tmp_path: Path) -> None:
    async with listening(tmp_path, ServerLimits(write_seconds=0.1)) as (harness, _):
        _, writer = await raw(harness)

        writer.write(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")

        async with asyncio.timeout(20):
            await harness.ended.wait()
        writer.close()


async def test_client_that_never_finishes_the_handshake_is_cut(tmp_path: Path) -> None:
    async with listening(tmp_path, ServerLimits(handshake_seconds=0.1)) as (harness, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", harness.port)

        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()


async def test_client_that_does_not_speak_tls_is_cut_at_once(tmp_path: Path) -> None:
    async with listening(tmp_path, ServerLimits(handshake_seconds=3600)) as (harness, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", harness.port)

        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")

        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


async def test_stop_does_not_wait_for_idle_clients(tmp_path: Path) -> None:
    async with listening(tmp_path, ServerLimits(drain_seconds=60)) as (harness, listener):
        context = ssl.create_default_context(cadata=harness.material.root_bundle.decode())
        with await asyncio.to_thread(socket.create_connection, ("127.0.0.1", harness.port)) as plain:
            client = await asyncio.to_thread(context.wrap_socket, plain, server_hostname="127.0.0.1")
            await asyncio.to_thread(client.sendall, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.to_thread(client.recv, 4096)

            async with asyncio.timeout(20):
                await listener.stop()
            client.close()


async def test_a_watch_is_flushed_at_once_and_ends_cleanly_when_the_server_stops(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, listener), harness.client() as client, client.get("/watch") as answer:
        assert await answer.content.readline() == b"one\n"

        await listener.stop()

        assert await answer.content.read() == b""
        assert harness.ended.is_set()


async def test_a_watcher_that_hangs_up_frees_its_stream(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, _), harness.client() as client:
        answer = await client.get("/watch")
        await answer.content.readline()

        answer.close()

        async with asyncio.timeout(60):
            await harness.ended.wait()


async def test_a_stream_pushes_between_its_chunks_and_not_after_its_end(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, _), harness.client() as client:
        answer = await client.get("/watch")
        assert await answer.content.readline() == b"one\n"
        (push,) = harness.pushes

        assert push(b"two\n")
        assert await answer.content.readline() == b"two\n"

        answer.close()
        async with asyncio.timeout(60):
            await harness.ended.wait()
        assert not push(b"three\n")


async def raw(harness: ListenerHarness) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cadata=harness.material.root_bundle.decode())
    return await asyncio.open_connection("127.0.0.1", harness.port, ssl=context)


async def test_requests_sent_ahead_are_answered_in_their_order(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, _):
        reader, writer = await raw(harness)
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50)))
        writer.write(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        answers = await reader.read()
        writer.close()

    assert answers.count(b"HTTP/1.1 200 OK") == 51
    assert [request.path for request in harness.requests] == [*(f"/{number}" for number in range(50)), "/last"]


async def test_client_that_expects_100_continue_receives_it(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, _):
        reader, writer = await raw(harness)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")

        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ok")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        writer.close()

    assert harness.requests[0].body == b"ok"


async def test_an_older_client_gets_a_stream_without_chunks(tmp_path: Path) -> None:
    async with listening(tmp_path) as (harness, listener):
        reader, writer = await raw(harness)
        writer.write(b"GET /watch HTTP/1.0\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(4) == b"one\n"

        await listener.stop()
        writer.close()

    assert b"chunked" not in head


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        pytest.param(
            ServerLimits(header_seconds=0.1), b"GET / HTTP/1.1\r\nHost: x\r\nX: ", id="a head that does not end"
        ),
        pytest.param(
            ServerLimits(request_seconds=0.1),
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
            id="a body that does not end",
        ),
        pytest.param(ServerLimits(header_seconds=0.1), b"", id="no request"),
    ],
)
async def test_slow_client_is_disconnected(tmp_path: Path, limits: ServerLimits, sent: bytes) -> None:
    async with listening(tmp_path, limits) as (harness, _):
        reader, writer = await raw(harness)
        writer.write(sent)

        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        writer.close()

    assert harness.requests == []


def test_a_context_accepts_no_protocol_older_than_tls_1_2(tmp_path: Path) -> None:
    material = PkiDirectory(tmp_path / "pki", ("127.0.0.1",), lambda: datetime.now(UTC))
    folder = tmp_path / "pki"

    context = serving_context(str(folder / "serving.crt"), str(folder / "serving.key"), material.root_bundle)

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
