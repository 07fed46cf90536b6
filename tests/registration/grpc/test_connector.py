"""Where the gRPC server is: as the bootstrap Secret configures it, and as the cluster's own Secret records it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from tests.registration.grpc.published_protocol import PublishedProtocol
from tests.registration.grpc.scripted_server import ScriptedServer, run_scripted_server

from watchword.api.sensitive import Sensitive
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.registration.driver import ConnectorContext, OwnEndpoint, ReplaceableBootstrap
from watchword.registration.grpc.config import GrpcEndpoint, bootstrap_config, hub_config, parse_config
from watchword.registration.grpc.connector import GrpcConnector

pytestmark = pytest.mark.real_time

TOKEN = Sensitive("abcdef.0123456789abcdef")
RECORDED = GrpcEndpoint(url="old.example.com:8090")


@pytest_asyncio.fixture
async def server(protocol: PublishedProtocol) -> AsyncIterator[ScriptedServer]:
    async with run_scripted_server(protocol) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    entry, user = ClusterEntry("https://hub.example.com:6443", ca_data=b"ca"), UserEntry(token=TOKEN)
    config = Kubeconfig({"berlin": entry}, {"b": user}, {"b": ContextEntry("berlin", "b")}, "b")
    (tmp_path / "kubeconfig").write_bytes(dump_kubeconfig(config))
    return tmp_path


def configure(folder: Path, endpoint: GrpcEndpoint, token: Sensitive[str] = TOKEN) -> None:
    (folder / "config.yaml").write_bytes(bootstrap_config(endpoint, token))


def a_connector(folder: Path) -> GrpcConnector:
    return GrpcConnector.make(ConnectorContext(cluster="edge", bootstrap=folder / "kubeconfig"))


def recorded(connector: GrpcConnector) -> GrpcEndpoint:
    return parse_config(connector.endpoint_data()["config.yaml"]).endpoint


def test_connector_without_configuration_cannot_join(folder: Path) -> None:
    connector = a_connector(folder)

    assert not connector.has_bootstrap_credential()
    assert connector.bootstrap_credential() is None
    assert connector.endpoint_data() == {}
    with pytest.raises(ConfigError, match=r"config\.yaml cannot be read"):
        connector.joining()


def test_connector_without_bootstrap_secret_cannot_join() -> None:
    with pytest.raises(ConfigError, match="no bootstrap configuration of a gRPC server"):
        GrpcConnector.make(ConnectorContext(cluster="edge", bootstrap=None)).joining()


def test_add_ons_find_the_api_server_by_the_kubeconfig(folder: Path) -> None:
    configure(folder, RECORDED)

    assert a_connector(folder).entry().server == "https://hub.example.com:6443"


def test_bootstrap_credential_changes_with_either_file(folder: Path) -> None:
    configure(folder, RECORDED)
    connector = a_connector(folder)
    assert isinstance(connector, ReplaceableBootstrap)
    first = connector.bootstrap_credential()
    configure(folder, replace(RECORDED, url="new.example.com:8090"))
    second = connector.bootstrap_credential()
    (folder / "kubeconfig").write_bytes((folder / "kubeconfig").read_bytes() + b"\n")
    third = connector.bootstrap_credential()

    found = [each for each in (first, second, third) if each is not None]
    assert len({each.digest for each in found}) == 3
    assert {(each.cluster_name, each.requester) for each in found} == {("berlin", "system:bootstrap:abcdef")}


def test_first_endpoint_is_the_configured_one(folder: Path) -> None:
    configure(folder, RECORDED)
    connector = a_connector(folder)
    assert isinstance(connector, OwnEndpoint)

    connector.restore_endpoint({})

    assert recorded(connector) == RECORDED


async def test_configured_endpoint_is_adopted_once_its_server_proved_itself(
    folder: Path, server: ScriptedServer
) -> None:
    connector = a_connector(folder)
    configure(folder, server.endpoint)
    connector.restore_endpoint({"config.yaml": hub_config(RECORDED, "tls.crt", "tls.key")})
    before = recorded(connector)

    assert await connector.check_endpoint()
    assert not await connector.check_endpoint()
    assert (before, recorded(connector)) == (RECORDED, server.endpoint)


async def test_endpoint_is_kept_while_the_configured_server_does_not_prove_itself(
    folder: Path, server: ScriptedServer, protocol: PublishedProtocol
) -> None:
    other_ca = ScriptedServer(protocol).authority.certificate.pem
    connector = a_connector(folder)
    connector.restore_endpoint({"config.yaml": hub_config(RECORDED, "tls.crt", "tls.key")})

    for wrong in (
        replace(server.endpoint, ca_data=other_ca),
        replace(server.endpoint, ca_data=b"no certificate"),
        replace(server.endpoint, url="localhost:1"),
    ):
        configure(folder, wrong)
        assert not await connector.check_endpoint()
    (folder / "config.yaml").write_text("url: [")
    assert not await connector.check_endpoint()

    assert recorded(connector) == RECORDED
    assert server.metadata == []
