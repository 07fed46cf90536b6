"""Reads and writes `config.yaml`: where the gRPC server of a hub is, who signs for it, and with what to join."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from watchword.api.sensitive import Sensitive
from watchword.api.validation import format_duration, parse_duration
from watchword.api.yaml import YamlError, dump, load
from watchword.kube.errors import ConfigError

HUB_FOLDER = "/spoke/hub-kubeconfig"  # where OCM's agent mounts the Secret: either agent reads the other's file
DEFAULT_PORT = 443
HEALTH_TIMEOUT = timedelta(seconds=20)  # the server sends a heartbeat every ten seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcEndpoint:
    """Where the gRPC server is, and how it is trusted."""

    url: str  # HOST:PORT
    ca_data: bytes = field(default=b"", repr=False)  # PEM; empty: the authorities of the system
    health_timeout: timedelta = HEALTH_TIMEOUT  # silence on a stream for so long means a lost connection
    keep_alive: Mapping[str, Any] = field(default_factory=dict, compare=False)  # for OCM's agent: carried, not used

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; `ConfigError` when the URL has none."""
        return parse_address(self.url)


class GrpcConfig(Struct, frozen=True, kw_only=True):
    """The content of one `config.yaml`."""

    endpoint: GrpcEndpoint
    token: Sensitive[str] | None = None  # of a joining cluster
    token_file: Path | None = None


def parse_address(url: str) -> tuple[str, int]:
    """Return host and port of a server; `ConfigError` when there is no host or no such port."""
    host, _, port = url.rpartition(":") if _has_port(url) else (url, "", str(DEFAULT_PORT))
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in url or any(sign.isspace() for sign in url):
        raise ConfigError(f"{url!r} is not the address of a gRPC server: give HOST:PORT")
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65536:
        raise ConfigError(f"{url!r} has no port of a gRPC server: give HOST:PORT")
    return host, int(port)


def _has_port(url: str) -> bool:
    return url.rpartition("]")[2].startswith(":") if url.startswith("[") else url.count(":") == 1


def parse_config(content: bytes, folder: Path | None = None) -> GrpcConfig:
    """Read a file; `ConfigError` when it cannot be used. Paths in it are relative to its folder."""
    try:
        parsed = load(content.decode("utf-8", errors="replace"))
    except YamlError as cause:
        raise ConfigError(f"config.yaml of the gRPC server is not YAML: {cause}") from cause
    if not isinstance(parsed, dict) or not isinstance(parsed.get("url"), str):
        raise ConfigError("config.yaml names no gRPC server: set url to HOST:PORT")
    parse_address(parsed["url"])
    texts = {name: value for name, value in parsed.items() if isinstance(value, str)}
    token, token_file = texts.get("token", ""), texts.get("tokenFile", "")
    keep_alive = parsed.get("keepAliveConfig")
    return GrpcConfig(
        endpoint=GrpcEndpoint(
            url=parsed["url"],
            ca_data=_authorities(texts, folder or Path()),
            health_timeout=_health_timeout(texts.get("serverHealthinessTimeout", "")),
            keep_alive=keep_alive if isinstance(keep_alive, dict) else {},
        ),
        token=Sensitive(token) if token else None,
        token_file=(folder or Path()) / token_file if token_file else None,
    )


def _authorities(texts: Mapping[str, str], folder: Path) -> bytes:
    try:
        if texts.get("caData"):
            return base64.b64decode(texts["caData"], validate=True)
        return (folder / texts["caFile"]).read_bytes() if texts.get("caFile") else b""
    except (binascii.Error, ValueError) as cause:
        raise ConfigError("caData of config.yaml is not base64") from cause
    except OSError as cause:
        raise ConfigError(f"caFile of config.yaml cannot be read: {cause.strerror}") from cause


def _health_timeout(text: str) -> timedelta:
    try:
        found = parse_duration(text) if text else HEALTH_TIMEOUT
    except ValueError as cause:
        raise ConfigError("serverHealthinessTimeout of config.yaml is not a duration such as 20s") from cause
    return found if found > timedelta(0) else HEALTH_TIMEOUT


def read_token(config: GrpcConfig) -> Sensitive[str]:
    """Return the token with which a cluster joins; `ConfigError` when there is none."""
    if config.token is not None:
        return config.token
    if config.token_file is None:
        raise ConfigError("config.yaml contains no token to join with: run watchword join again")
    try:
        return Sensitive(config.token_file.read_text().strip())
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(f"{config.token_file} cannot be read: give the agent a token to join with") from cause


def bootstrap_config(endpoint: GrpcEndpoint, token: Sensitive[str]) -> bytes:
    """Return the file for the bootstrap Secret; it contains the token."""
    return dump({**_endpoint_fields(endpoint), "token": token.reveal()}).encode()


def hub_config(endpoint: GrpcEndpoint, certificate: str, key: str) -> bytes:
    files = {"clientCertFile": f"{HUB_FOLDER}/{certificate}", "clientKeyFile": f"{HUB_FOLDER}/{key}"}
    return dump({**_endpoint_fields(endpoint), **files}).encode()


def _endpoint_fields(endpoint: GrpcEndpoint) -> dict[str, Any]:
    fields: dict[str, Any] = {"url": endpoint.url}
    if endpoint.ca_data:
        fields["caData"] = base64.b64encode(endpoint.ca_data).decode()
    if endpoint.health_timeout != HEALTH_TIMEOUT:
        fields["serverHealthinessTimeout"] = format_duration(endpoint.health_timeout)
    return {**fields, "keepAliveConfig": dict(endpoint.keep_alive)} if endpoint.keep_alive else fields
