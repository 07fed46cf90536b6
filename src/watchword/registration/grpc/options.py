"""What can be configured about registration over gRPC, for clusters and for hubs."""

import ipaddress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from watchword.api.sensitive import Sensitive
from watchword.api.validation import is_dns_subdomain
from watchword.credentials.driver import (
    AUTO_APPROVAL,
    DRIVER_LIST,
    ENDPOINT_CONFIG,
    DriverOption,
    HubContext,
    OptionType,
    SecretData,
    Settings,
    Side,
)
from watchword.kube.errors import ConfigError
from watchword.registration.certificate_approval import AllowList
from watchword.registration.grpc.config import GrpcEndpoint, bootstrap_config, parse_address, parse_config

ANNOTATION = "agent.open-cluster-management.io/grpc"
"""Marks the ManagedCluster of a cluster that registers over gRPC."""


def validate_server(value: str) -> str:
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
    help="CA bundle (PEM) for the gRPC server; by default the CAs of this system.",
    side=Side.JOIN,
)
JOIN_OPTIONS = (SERVER, CA_FILE)


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


LONGEST_LIFETIME = timedelta(days=30)
"""How long a certificate of an agent is valid, unless it asks for less."""


def validate_hosts(value: str) -> str:
    wrong = [host for host in value.split(",") if host and not (is_dns_subdomain(host) or _is_address(host))]
    return f"{wrong[0]!r} is neither a host name nor an IP address: correct {HOSTS.flag}" if wrong else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


USERS = DriverOption(
    flag="--auto-approved-grpc-users",
    aliases=("--auto-approved-grpc-identities",),
    help=f"Users whose first request over gRPC is approved automatically, with {AUTO_APPROVAL}; separated by commas.",
    side=Side.HUB,
    type=OptionType.LIST,
    paths=((DRIVER_LIST, "grpc", "autoApprovedIdentities"),),
    gate=AUTO_APPROVAL,
)
HOSTS = DriverOption(
    flag="--grpc-server-hosts",
    help="Host names and addresses by which agents reach the gRPC server, for its certificate; separated by commas.",
    side=Side.HUB,
    type=OptionType.LIST,
    exposure="grpc",
    validate=validate_hosts,
)
HUB_OPTIONS = (USERS, HOSTS)


def read_allow_list(context: HubContext) -> AllowList:
    """Return whose first request over gRPC is approved automatically, from the settings of the hub."""
    return AllowList(context.auto_approval, frozenset(USERS.read_list(context.settings)))
