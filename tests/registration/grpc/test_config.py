"""`config.yaml` of the bootstrap Secret and of the cluster's own Secret."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

import pytest

from watchword.api.sensitive import Sensitive
from watchword.api.yaml import load
from watchword.kube.errors import ConfigError
from watchword.registration.grpc.config import (
    GrpcEndpoint,
    bootstrap_config,
    hub_config,
    parse_address,
    parse_config,
    read_token,
)
from watchword.registration.grpc.driver import GrpcDriver

CA = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
FROM_CLUSTERADM = f"""
url: grpc.example.com:443
caData: {base64.b64encode(CA).decode()}
token: aaaaaa.bbbbbbbbbbbbbbbb
keepAliveConfig:
  enable: true
  time: 30s
serverHealthinessTimeout: 25s
""".encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"url: [", "is not YAML", id="no YAML"),
        pytest.param(b"[]", "set url to HOST:PORT", id="no object"),
        pytest.param(b"token: x", "set url to HOST:PORT", id="no server"),
        pytest.param(b"url: https://hub:443", "give HOST:PORT", id="a URL with a scheme"),
        pytest.param(b"url: 'hub:port'", "give HOST:PORT", id="no number"),
        pytest.param(b"url: 'hub:70000'", "give HOST:PORT", id="no port"),
        pytest.param(b"url: ':443'", "give HOST:PORT", id="no host"),
        pytest.param(b"url: hub:443\ncaData: '%'", "caData of config.yaml is not base64", id="no base64"),
        pytest.param(b"url: hub:443\ncaFile: missing.crt", "caFile of config.yaml cannot be read", id="no file"),
        pytest.param(b"url: hub:443\nserverHealthinessTimeout: soon", "is not a duration", id="no duration"),
    ],
)
def test_unusable_configuration_says_what_to_correct(content: bytes, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=expected):
        parse_config(content, tmp_path)


def test_configuration_of_another_tool_is_read() -> None:
    config = parse_config(FROM_CLUSTERADM)

    assert config.endpoint == GrpcEndpoint(url="grpc.example.com:443", ca_data=CA, health_timeout=timedelta(seconds=25))
    assert read_token(config).reveal() == "aaaaaa.bbbbbbbbbbbbbbbb"


def test_files_beside_the_configuration_are_read(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CA)
    (tmp_path / "token").write_text("aaaaaa.bbbbbbbbbbbbbbbb\n")

    config = parse_config(b"url: hub:443\ncaFile: ca.crt\ntokenFile: token\n", tmp_path)

    assert (config.endpoint.ca_data, read_token(config).reveal()) == (CA, "aaaaaa.bbbbbbbbbbbbbbbb")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        pytest.param("hub:8090", ("hub", 8090), id="name"),
        pytest.param("hub", ("hub", 443), id="without a port"),
        pytest.param("[fd00::1]:8090", ("fd00::1", 8090), id="IPv6"),
        pytest.param("[fd00::1]", ("fd00::1", 443), id="IPv6 without a port"),
    ],
)
def test_address_of_a_server(url: str, address: tuple[str, int]) -> None:
    assert parse_address(url) == address


def test_own_configuration_names_the_files_where_the_agent_of_ocm_mounts_them() -> None:
    endpoint = parse_config(FROM_CLUSTERADM).endpoint

    written = load(hub_config(endpoint, "tls.crt", "tls.key").decode())

    assert written["clientCertFile"] == "/spoke/hub-kubeconfig/tls.crt"
    assert written["keepAliveConfig"] == {"enable": True, "time": "30s"}
    assert "token" not in written
    assert parse_config(hub_config(endpoint, "tls.crt", "tls.key")).endpoint == endpoint


def test_token_is_not_shown() -> None:
    assert "bbbbbbbb" not in repr(parse_config(FROM_CLUSTERADM))


TOKEN = Sensitive("cccccc.dddddddddddddddd")


def test_join_without_server_adds_nothing() -> None:
    assert GrpcDriver().bootstrap_data({}, TOKEN, {}) == {}


def test_join_writes_server_authority_and_token(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CA)
    flags = {"--grpc-server": "hub:8090", "--grpc-ca-file": str(tmp_path / "ca.crt")}

    config = parse_config(GrpcDriver().bootstrap_data(flags, TOKEN, {})["config.yaml"])

    assert config.endpoint == GrpcEndpoint(url="hub:8090", ca_data=CA)
    assert read_token(config).reveal() == TOKEN.reveal()


def test_second_join_replaces_the_token_and_keeps_the_server() -> None:
    present = {"config.yaml": bootstrap_config(GrpcEndpoint(url="hub:8090", ca_data=CA), Sensitive("old"))}

    config = parse_config(GrpcDriver().bootstrap_data({}, TOKEN, present)["config.yaml"])

    assert config.endpoint == GrpcEndpoint(url="hub:8090", ca_data=CA)
    assert read_token(config).reveal() == TOKEN.reveal()


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_join_with_unusable_authority_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigError, match="--grpc-ca-file"):
        GrpcDriver().bootstrap_data({"--grpc-server": "hub:8090", "--grpc-ca-file": str(path)}, TOKEN, {})
