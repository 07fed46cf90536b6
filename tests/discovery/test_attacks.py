"""Attacks on discovery, on real sockets with real TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import orjson
import pytest
from tests.emulators.tls_server import TlsServer, serve_tls
from tests.helpers.cluster_info_server import ClusterInfoServer, signed_cluster_info

from watchword.api.http import Request, Response
from watchword.discovery.cluster_info import ClusterInfo, write_cluster_info
from watchword.discovery.discover import BootstrapTokenDiscovery, ClusterDiscovery, HttpsClientFactory, PollOptions
from watchword.discovery.discovery_document import read_document
from watchword.discovery.errors import DiscoveryError, DiscoveryReason
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.tls import Trust
from watchword.pki.authority import Authority

pytestmark = pytest.mark.real_time

OURS, OTHER_CA = (Authority.make(name, now=datetime.now(UTC)) for name in ("ours", "other"))
TOKEN, OTHER = BootstrapToken.generate(), BootstrapToken.generate()
NO_WAIT = PollOptions(timedelta(0), timedelta(milliseconds=1))
Handler = Callable[[Request], Awaitable[Response]]


@dataclass
class ServedClusterInfo:
    """A hub on loopback, or an impostor."""

    server: TlsServer
    publisher: ClusterInfoServer

    @property
    def info(self) -> ClusterInfo:
        return ClusterInfo((self.server.url,), (OURS.certificate,))

    async def discover(self, *, pinned: bool = True) -> ClusterInfo:
        method = BootstrapTokenDiscovery(
            self.server.url, TOKEN, self.info.pins if pinned else (), unsafe_skip_ca_pin=not pinned
        )
        return await ClusterDiscovery(HttpsClientFactory(), NO_WAIT).by_token(method)

    def assert_nothing_secret_was_heard(self) -> None:
        for request in self.server.heard:
            assert not any(request.header(name) for name in ("Authorization", "Cookie", "Proxy-Authorization"))
            assert request.peer.certificate_chain == ()
            assert TOKEN.secret.reveal() not in f"{request.path}{request.query}{request.headers}{request.body!r}"


@asynccontextmanager
async def a_scene(folder: Path, authority: Authority) -> AsyncIterator[ServedClusterInfo]:
    publisher = ClusterInfoServer(authority)
    async with serve_tls(publisher.handle, authority, folder) as server:
        yield ServedClusterInfo(server, publisher)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[ServedClusterInfo]:
    async with a_scene(tmp_path, OURS) as scene:
        scene.publisher.publish(scene.info, TOKEN)
        yield scene


@pytest.fixture
async def impostor(tmp_path: Path) -> AsyncIterator[ServedClusterInfo]:
    async with a_scene(tmp_path, OTHER_CA) as scene:
        yield scene


def forged(scene: ServedClusterInfo) -> ClusterInfo:
    return ClusterInfo((scene.server.url,), (OTHER_CA.certificate,))


async def test_the_real_hub_is_found(hub: ServedClusterInfo) -> None:
    assert await hub.discover() == hub.info
    hub.assert_nothing_secret_was_heard()


async def test_an_impostor_without_the_token_is_refused(impostor: ServedClusterInfo) -> None:
    impostor.publisher.data = signed_cluster_info(write_cluster_info(forged(impostor)), OTHER)
    impostor.publisher.data[f"jws-kubeconfig-{TOKEN.id}"] = impostor.publisher.data[f"jws-kubeconfig-{OTHER.id}"]
    with pytest.raises(DiscoveryError, match="nothing secret was sent") as refusal:
        await impostor.discover()
    assert refusal.value.reason == DiscoveryReason.SIGNATURE_WRONG
    assert len(impostor.server.heard) == 1
    impostor.assert_nothing_secret_was_heard()


async def test_an_impostor_with_the_token_is_refused_by_the_pin_and_only_by_it(impostor: ServedClusterInfo) -> None:
    impostor.publisher.publish(forged(impostor), TOKEN)
    with pytest.raises(DiscoveryError) as refusal:
        await impostor.discover()
    assert refusal.value.reason == DiscoveryReason.PIN_MISMATCH
    impostor.assert_nothing_secret_was_heard()
    assert await impostor.discover(pinned=False) == forged(impostor), "this is what waiving the pin means"


def with_both_authorities(scene: ServedClusterInfo) -> ClusterInfo:
    return ClusterInfo((scene.server.url,), (OTHER_CA.certificate, OURS.certificate))


async def test_token_holder_that_adds_its_own_authority_beside_the_pinned_one_is_refused(
    impostor: ServedClusterInfo,
) -> None:
    impostor.publisher.publish(with_both_authorities(impostor), TOKEN)
    with pytest.raises(DiscoveryError) as refusal:
        await impostor.discover()
    assert refusal.value.reason == DiscoveryReason.SERVER_NOT_TRUSTED
    assert len(impostor.server.heard) == 1, "the TLS handshake of the second request failed"
    impostor.assert_nothing_secret_was_heard()


async def test_authorities_that_a_server_of_the_pinned_one_publishes_are_accepted(hub: ServedClusterInfo) -> None:
    hub.publisher.publish(with_both_authorities(hub), TOKEN)
    assert await hub.discover() == with_both_authorities(hub)


async def test_a_relay_of_the_genuine_cluster_info_is_refused_by_its_certificate(impostor: ServedClusterInfo) -> None:
    impostor.publisher.publish(impostor.info, TOKEN)
    with pytest.raises(DiscoveryError) as refusal:
        await impostor.discover()
    assert refusal.value.reason == DiscoveryReason.SERVER_NOT_TRUSTED
    impostor.assert_nothing_secret_was_heard()


async def test_nothing_of_the_environment_is_sent_to_an_unverified_server(
    hub: ServedClusterInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc, kubeconfig = tmp_path / "netrc", tmp_path / "config"
    netrc.write_text("default login somebody password hunter2\n")
    kubeconfig.write_text(f"users: [{{name: a, user: {{token: {TOKEN.reveal()}}}}}]")
    for name, value in {"NETRC": netrc, "KUBECONFIG": kubeconfig, "HOME": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://somebody:hunter2@127.0.0.1:9")
    netrc.chmod(0o600)
    netrc.rename(tmp_path / ".netrc")
    assert await hub.discover() == hub.info
    hub.assert_nothing_secret_was_heard()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Response(302, (("Location", "http://127.0.0.1:9/"),)), id="redirect to http"),
        pytest.param(Response(301, (("Location", "https://localhost:9/"),)), id="redirect to another host"),
        pytest.param(Response(200, body=b"<html>"), id="html"),
        pytest.param(Response(200, body=b"[" * 100_000), id="deep json"),
        pytest.param(Response(200, body=b"x" * 5_000_000), id="oversized"),
        pytest.param(Response(200, body=orjson.dumps({"data": {"kubeconfig": 7}})), id="a number as kubeconfig"),
        pytest.param(Response(200, body=orjson.dumps([1])), id="a list"),
        pytest.param(Response(401), id="no anonymous access"),
    ],
)
async def test_an_answer_that_is_no_cluster_info_is_refused_with_one_sentence(answer: Response, tmp_path: Path) -> None:
    async def handle(_: Request) -> Response:
        return answer

    async with serve_tls(handle, OURS, tmp_path) as server:
        with pytest.raises(DiscoveryError) as refusal:
            await ServedClusterInfo(server, ClusterInfoServer(OURS)).discover()
        assert len(server.heard) == 1
        assert "\n" not in str(refusal.value)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_old_tls_versions_are_refused(tmp_path: Path) -> None:
    publisher = ClusterInfoServer(OURS)
    async with serve_tls(publisher.handle, OURS, tmp_path, newest_tls=ssl.TLSVersion.TLSv1_1) as server:
        with pytest.raises(DiscoveryError, match="handshake"):
            await ServedClusterInfo(server, publisher).discover()
        assert server.heard == []


async def read(source: str, text: bytes = b"") -> bytes:
    return await read_document(source, BytesIO(text), Trust(OURS.certificate.pem))


DOCUMENT = write_cluster_info(ClusterInfo(("https://hub:6443",), (OURS.certificate,))).encode()


async def test_a_document_is_read_from_file_standard_input_and_https(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(DOCUMENT)

    async def handle(request: Request) -> Response:
        return Response(307, (("Location", "/b"),)) if request.path == "/a" else Response(200, body=DOCUMENT)

    async with serve_tls(handle, OURS, tmp_path) as server:
        assert await read(f"{server.url}/a") == DOCUMENT
        assert not any(request.header("Authorization") for request in server.heard)
    assert await read(str(path)) == DOCUMENT
    assert await read("-", DOCUMENT) == DOCUMENT


@pytest.mark.parametrize(
    "source",
    [
        "http://hub/cluster.yaml",
        "HTTP://hub/cluster.yaml",
        "file:///etc/passwd",
        "unix:/run/docker.sock",
        "data:text/plain,x",
        "ftp://hub/x",
        "https://user:password@hub/x",
        "https://",
        "/does/not/exist",
        "/dev/zero",
        "/",
    ],
)
async def test_other_sources_are_refused_without_being_opened(source: str) -> None:
    with pytest.raises(DiscoveryError):
        await read(source)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Response(302, (("Location", "http://169.254.169.254/latest/"),)), id="metadata service"),
        pytest.param(Response(302, (("Location", "https://elsewhere/"),)), id="another host"),
        pytest.param(Response(302, (("Location", "/again"),)), id="for ever"),
        pytest.param(Response(302), id="nowhere"),
        pytest.param(Response(404, body=b"gone"), id="not found"),
        pytest.param(Response(200, body=b"x" * 1_100_000), id="oversized"),
    ],
)
async def test_a_download_that_strays_is_refused(answer: Response, tmp_path: Path) -> None:
    async def handle(_: Request) -> Response:
        return answer

    async with serve_tls(handle, OURS, tmp_path) as server:
        with pytest.raises(DiscoveryError):
            await read(f"{server.url}/cluster.yaml")
        assert len(server.heard) <= 4


async def test_a_download_from_a_server_that_the_system_does_not_know_is_refused(tmp_path: Path) -> None:
    async def handle(_: Request) -> Response:
        return Response(200, body=DOCUMENT)

    async with serve_tls(handle, OTHER_CA, tmp_path) as server:
        with pytest.raises(DiscoveryError, match="cannot be read"):
            await read(f"{server.url}/cluster.yaml")
        assert server.heard == []


async def test_standard_input_without_end_is_cut_off() -> None:
    with pytest.raises(DiscoveryError, match="larger than 1 MiB"):
        await read("-", b"x" * 2_000_000)
