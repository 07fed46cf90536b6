"""The transport over real sockets and real TLS: what arrives, what is refused, and the error messages."""

from __future__ import annotations

import asyncio
import base64
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace
from tests.kube.conftest import serving_context

from watchword.api.http import Request
from watchword.api.meta import ObjectKey
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.discovery.discover import unverified_client_for_discovery_only
from watchword.kube.client import Client
from watchword.kube.connect import make_client
from watchword.kube.credentials import Credential, CredentialSource, FixedCredential, StoredCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import (
    ClientCertificateRefused,
    ConfigError,
    KubeError,
    MalformedResponse,
    ServerError,
    Unauthorized,
    Unreachable,
)
from watchword.kube.files import WatchedFile
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.request_sender import NO_RETRY
from watchword.kube.tls import ClientCertificate, ContextCache
from watchword.kube.watch_stream import WatchQuery, watch_events
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject

pytestmark = pytest.mark.real_time

Serve = Callable[..., Awaitable[Endpoint]]
KEY = ObjectKey("a", "b")
NOBODY = FixedCredential()


@asynccontextmanager
async def connected(
    endpoint: Endpoint, credentials: CredentialSource = NOBODY, **options: Any
) -> AsyncIterator[Client]:
    client = make_client(endpoint, credentials, **{"retry": NO_RETRY, **options})
    try:
        yield client
    finally:
        await client.close()


async def echo(request: web.Request) -> web.Response:
    return web.json_response({"path": request.raw_path, "token": request.headers.get("Authorization", "")})


def answering(status: int = 200, **options: Any) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, **options)

    return answer


def client_certificate(authority: Authority, *, issued: datetime | None = None) -> ClientCertificate:
    key = PrivateKey.generate()
    now = issued or datetime.now(UTC)
    issued_certificate = authority.issue_client(
        key.public, CertificateSubject("me", ()), now=now, lifetime=timedelta(days=1)
    )
    return ClientCertificate(issued_certificate.pem, key.pem)


async def complaint(endpoint: Endpoint, credentials: CredentialSource = NOBODY) -> str:
    async with connected(endpoint, credentials) as client:
        with pytest.raises(KubeError) as caught:
            await client.get(SECRETS, KEY)
    return str(caught.value)


async def test_a_request_arrives_with_its_token_and_its_exact_path(serve: Serve) -> None:
    endpoint = await serve(echo)
    token = FixedCredential(Credential(Sensitive("Bearer sesame")))

    async with connected(endpoint, token) as client:
        answer = await client.get(SECRETS, ObjectKey("a", "../b?c"))

    assert answer == {"path": "/api/v1/namespaces/a/secrets/..%2Fb%3Fc", "token": "Bearer sesame"}


async def test_a_path_prefix_of_the_server_is_kept(serve: Serve) -> None:
    endpoint = await serve(echo)

    async with connected(replace(endpoint, server=f"{endpoint.server}/k8s/clusters/x/")) as client:
        assert (await client.get(SECRETS, KEY))["path"] == "/k8s/clusters/x/api/v1/namespaces/a/secrets/b"


async def test_a_client_certificate_is_shown(serve: Serve, authority: Authority) -> None:
    endpoint = await serve(echo, ask=True)
    held = FixedCredential(Credential(certificate=client_certificate(authority)))

    async with connected(endpoint, held) as client:
        assert await client.get(SECRETS, KEY)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(ssl.TLSVersion.TLSv1_3, ClientCertificateRefused, id="by a server that has proved its identity"),
        pytest.param(ssl.TLSVersion.TLSv1_2, Unreachable, id="before the handshake has ended"),
    ],
)
async def test_client_certificate_that_is_refused_by_an_alert_is_a_refused_credential(
    serve: Serve, authority: Authority, version: ssl.TLSVersion, expected: type[Unreachable]
) -> None:
    endpoint = await serve(echo, ask=True, version=version)
    expired = client_certificate(authority, issued=datetime.now(UTC) - timedelta(days=9))

    async with connected(endpoint, FixedCredential(Credential(certificate=expired))) as client:
        with pytest.raises(Unreachable, match="rejected the client certificate") as refusal:
            await client.get(SECRETS, KEY)

    assert type(refusal.value) is expected


async def test_server_that_wants_a_client_certificate_has_processed_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    context = serving_context(authority, tmp_path, datetime.now(UTC), ("127.0.0.1",))
    context.verify_mode = ssl.CERT_REQUIRED

    def refuse(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)  # sends the alert, which asyncio does not

    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(f"https://127.0.0.1:{listener.getsockname()[1]}", authority.certificate.pem)
        async with connected(endpoint) as client, asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(refuse, listener))
            with pytest.raises(Unreachable, match="wants a client certificate, and none is configured") as refusal:
                await client.get(SECRETS, KEY)

    assert not isinstance(refusal.value, ClientCertificateRefused)
    assert not refusal.value.maybe_processed


BAD_CERTIFICATE = b"\x15\x03\x03\x00\x02\x02\x2a"
"""A TLS alert in plain text, which needs neither key nor certificate."""


async def test_alert_of_a_peer_without_a_certificate_does_not_refuse_the_credential(authority: Authority) -> None:
    async def alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(BAD_CERTIFICATE)
        writer.close()

    async with await asyncio.start_server(alert, "127.0.0.1", 0) as server:
        endpoint = Endpoint(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", authority.certificate.pem)
        held = client_certificate(authority, issued=datetime.now(UTC))
        async with connected(endpoint, FixedCredential(Credential(certificate=held))) as client:
            with pytest.raises(Unreachable) as refusal:
                await client.get(SECRETS, KEY)

    assert not isinstance(refusal.value, ClientCertificateRefused)


async def test_a_certificate_of_another_authority_is_refused(serve: Serve) -> None:
    endpoint = await serve(echo)
    other_ca = Authority.make("other", now=datetime.now(UTC))

    sentence = await complaint(replace(endpoint, ca=other_ca.certificate.pem))

    assert "signed by an authority that is not trusted here: check certificate-authority" in sentence


async def test_an_expired_certificate_is_refused(serve: Serve) -> None:
    assert "its certificate has expired" in await complaint(
        await serve(echo, issued=datetime.now(UTC) - timedelta(days=9))
    )


async def test_a_certificate_for_another_name_is_refused_unless_that_name_is_expected(serve: Serve) -> None:
    endpoint = await serve(echo, hosts=("kubernetes.default.svc",))

    assert "for another name: check the address or tls-server-name" in await complaint(endpoint)
    async with connected(replace(endpoint, server_name="kubernetes.default.svc")) as client:
        assert await client.get(SECRETS, KEY)


async def test_refused_connection_is_reported() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{probe.getsockname()[1]}"

    assert "the connection was refused: is the API server running" in await complaint(Endpoint(address))


async def test_unresolvable_name_is_reported() -> None:
    assert "its name cannot be resolved" in await complaint(Endpoint("https://no-such-host.invalid:6443"))


async def test_server_without_tls_is_reported() -> None:
    async def speak_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert "does not speak TLS on this port" in await complaint(Endpoint(f"https://127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        pytest.param(
            answering(text="<html>hi</html>", content_type="text/html"), MalformedResponse, "is HTML", id="an HTML page"
        ),
        pytest.param(answering(502, text="<p>bad gateway"), ServerError, "502 without a Status", id="a gateway"),
        pytest.param(answering(302, headers={"Location": "/login"}), MalformedResponse, "redirect", id="a login page"),
        pytest.param(answering(), MalformedResponse, "empty", id="nothing"),
        pytest.param(answering(text="[]"), MalformedResponse, "not a JSON object", id="a list"),
    ],
)
async def test_an_answer_that_is_not_kubernetes(
    serve: Serve, answer: Any, error: type[KubeError], sentence: str
) -> None:
    async with connected(await serve(answer)) as client:
        with pytest.raises(error, match=sentence):
            await client.get(SECRETS, KEY)


async def test_a_token_file_is_read_again_when_the_old_token_is_rejected(serve: Serve, tmp_path: Path) -> None:
    async def picky(request: web.Request) -> web.Response:
        return web.json_response({}, status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    file = tmp_path / "token"
    file.write_text("old\n")
    async with connected(await serve(picky), StoredCredential(token=WatchedFile(file, "token file"))) as client:
        with pytest.raises(Unauthorized):
            await client.get(SECRETS, KEY)
        file.write_text("new\n")
        assert await client.get(SECRETS, KEY) == {}


async def test_a_certificate_rotated_half_way_leaves_the_old_pair_in_use(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    old, new = client_certificate(authority), client_certificate(authority)
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    chain.write_bytes(old.chain)
    key.write_bytes(old.key.reveal())
    stored = StoredCredential(chain=WatchedFile(chain, "certificate"), key=WatchedFile(key, "key"))

    async with connected(await serve(echo, ask=True), stored) as client:
        await client.get(SECRETS, KEY)
        chain.write_bytes(new.chain)
        assert await stored.renewed(await stored.current()) is not None
        assert await client.get(SECRETS, KEY)
        key.write_bytes(new.key.reveal())
        assert await stored.renewed(await stored.current()) is not None
        assert await client.get(SECRETS, KEY)


async def test_truncated_response_is_reported(serve: Serve) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"kind":')
        assert request.transport is not None
        request.transport.abort()
        return response

    assert "closed the connection in the middle of a response" in await complaint(await serve(cut))


async def test_a_credential_never_travels_over_plain_http_to_another_machine() -> None:
    token = FixedCredential(Credential(Sensitive("Bearer sesame")))

    assert "not sent over plain http" in await complaint(Endpoint("http://192.0.2.1:8080"), token)


async def test_discovery_shows_an_unproved_server_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@127.0.0.1:1")
    endpoint = await serve(echo, issued=datetime.now(UTC) - timedelta(days=9), hosts=("elsewhere",))

    client = unverified_client_for_discovery_only(endpoint.server)
    answer = await client.get(SECRETS, KEY)
    await client.close()

    assert answer["token"] == ""


def test_discovery_refuses_plain_http() -> None:
    with pytest.raises(ConfigError, match="needs an https address"):
        unverified_client_for_discovery_only("http://127.0.0.1:80")


async def test_a_watch_event_may_be_larger_than_any_buffer(serve: Serve) -> None:
    payload = "x" * 3_000_000

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        text = f'{{"type":"ADDED","object":{{"metadata":{{"resourceVersion":"1"}},"data":"{payload}"}}}}\n'
        await response.write(text.encode())
        return response

    async with connected(await serve(watch)) as client:
        events = [event async for event in watch_events(client, SECRETS, WatchQuery())]

    assert events[0].decode()["data"] == payload


async def test_closed_client_raises_a_clear_error(serve: Serve) -> None:
    client = make_client(await serve(echo), NOBODY, retry=NO_RETRY)
    await client.get(SECRETS, KEY)
    await client.close()

    with pytest.raises(Unreachable, match="the client is closed"):
        await client.get(SECRETS, KEY)


async def test_the_servers_clock_is_compared_with_ours(serve: Serve) -> None:
    async with connected(await serve(echo), now=lambda: datetime.now(UTC).timestamp() - 3600) as client:
        await client.get(SECRETS, KEY)
        assert client.clock_skew is not None
        assert abs(client.clock_skew - timedelta(hours=1)) < timedelta(seconds=3)


async def test_a_proxy_that_is_not_there_is_named(serve: Serve) -> None:
    endpoint = replace(await serve(echo), proxy="http://127.0.0.1:1")

    assert "the proxy cannot be reached" in await complaint(endpoint)


@asynccontextmanager
async def a_proxy(
    answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n",
) -> AsyncIterator[tuple[str, list[str]]]:
    """Run a proxy that opens tunnels, or responds otherwise; yields its address and its requests."""
    asked: list[str] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(answer)
        host, _, port = asked[-1].split()[1].rpartition(":")
        inner, outer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pour(reader, outer), pour(inner, writer))

    async def pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
        sink.close()

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def test_a_tunnel_through_a_proxy_ends_at_the_server_itself(serve: Serve) -> None:
    endpoint = await serve(echo)
    async with a_proxy() as (address, asked):
        through = replace(endpoint, proxy=f"http://me:p%40ss@{address}")
        async with connected(through, FixedCredential(Credential(Sensitive("Bearer sesame")))) as client:
            answers = [await client.get(SECRETS, KEY) for _ in range(2)]

    assert answers[1]["token"] == "Bearer sesame"
    assert len(asked) == 1
    assert asked[0].startswith(f"CONNECT {endpoint.server.removeprefix('https://')} HTTP/1.1\r\n")
    assert "sesame" not in asked[0]
    assert f"Basic {base64.b64encode(b'me:p@ss').decode()}" in asked[0]


async def test_a_proxy_that_will_not_connect_us_is_named(serve: Serve) -> None:
    endpoint = await serve(echo)
    async with a_proxy(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as (address, _):
        assert "the proxy answered 407" in await complaint(replace(endpoint, proxy=f"http://{address}"))


async def test_connections_are_used_again_and_not_by_another_credential(serve: Serve, authority: Authority) -> None:
    ports: list[int] = []

    async def note(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.json_response({})

    held = [FixedCredential(Credential(certificate=client_certificate(authority))) for _ in range(2)]
    endpoint, contexts = await serve(note, ask=True), ContextCache()
    transports = [HttpsTransport(endpoint, one, contexts=contexts) for one in held]
    for transport in (transports[0], transports[0], transports[1]):
        assert (await transport.send(Request("GET", "/"))).status == 200
    for transport in transports:
        await transport.close()

    assert ports[0] == ports[1] != ports[2]


async def test_an_unproved_server_cannot_fill_our_memory(serve: Serve) -> None:
    client = unverified_client_for_discovery_only((await serve(answering(body=b" " * 2_000_000))).server)

    with pytest.raises(MalformedResponse, match="sent more than 1048576 bytes"):
        await client.get(SECRETS, KEY)
    await client.close()


async def test_compressed_body_is_not_decompressed(serve: Serve) -> None:
    packed = gzip.compress(b" " * 50_000_000)

    async with connected(await serve(answering(body=packed, headers={"Content-Encoding": "gzip"}))) as client:
        with pytest.raises(MalformedResponse, match="not a JSON object"):
            await client.get(SECRETS, KEY)
