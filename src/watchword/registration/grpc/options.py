"""What can be configured about registration over gRPC, on the cluster's side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from watchword.api.sensitive import Sensitive
from watchword.kube.errors import ConfigError
from watchword.registration.grpc.config import GrpcEndpoint, bootstrap_config, parse_address, parse_config
from watchword.registration.interface import ENDPOINT_CONFIG, SecretData
from watchword.registration.options import DriverOption, Settings, Side

ANNOTATION = "agent.open-cluster-management.io/grpc"
"""Marks the ManagedCluster of a cluster that registers over gRPC."""


def validate_server(value: str) -> str:
    """Return why a server cannot be reached at an address; empty when it can."""
    try:
        parse_address(value)
    except ConfigError as objection:
        return str(objection)
    return ""


SERVER = DriverOption(
    flag="--grpc-server",
    help="HOST:PORT of the hub's gRPC server; goes with --registration-auth grpc.",
    side=Side.JOIN,
    required=True,
    validate=validate_server,
)
CA_FILE = DriverOption(
    flag="--grpc-ca-file",
    help="The authorities of the gRPC server's certificate, as PEM; those of this machine's system without it.",
    side=Side.JOIN,
)
JOIN_OPTIONS = (SERVER, CA_FILE)


def annotate(_settings: Settings) -> Mapping[str, str]:
    """Return the annotation of the ManagedCluster."""
    return {ANNOTATION: "true"}


def bootstrap_data(settings: Settings, token: Sensitive[str], present: SecretData) -> SecretData:
    """Return `config.yaml` of the bootstrap Secret: what flags do not name stays as it is, the token is replaced."""
    server, ca_file = SERVER.read(settings), CA_FILE.read(settings)
    known = parse_config(present[ENDPOINT_CONFIG]).endpoint if ENDPOINT_CONFIG in present else None
    if not server and known is None:
        return {}
    endpoint = replace(known, url=server or known.url) if known is not None else GrpcEndpoint(url=server)
    if ca_file:
        endpoint = replace(endpoint, ca_data=_read_authorities(Path(ca_file)))
    return {ENDPOINT_CONFIG: bootstrap_config(endpoint, token)}


def _read_authorities(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as cause:
        raise ConfigError(f"{CA_FILE.flag} {path} cannot be read: {cause.strerror}") from cause
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise ConfigError(f"{CA_FILE.flag} {path} contains no PEM certificate: give the authority of the gRPC server")
    return content
