"""What can be configured about registration over gRPC on the hub."""

from __future__ import annotations

import ipaddress
from datetime import timedelta

from watchword.api.validation import is_dns_subdomain
from watchword.registration.allow_list import AllowList
from watchword.registration.interface import HubContext
from watchword.registration.options import AUTO_APPROVAL, DRIVER_LIST, DriverOption, OptionType, Settings, Side

LONGEST_LIFETIME = timedelta(days=30)
"""How long a certificate of an agent is valid, unless it asks for less."""


def validate_hosts(value: str) -> str:
    """Return why the server cannot have a certificate for these names; empty when it can."""
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
    trial="localhost,127.0.0.1",
    validate=validate_hosts,
)
HUB_OPTIONS = (USERS, HOSTS)


def read_allow_list(context: HubContext) -> AllowList:
    """Return whose first request over gRPC is approved automatically, from the settings of the hub."""
    return AllowList(context.auto_approval, frozenset(USERS.read_list(context.settings)))


def server_hosts(settings: Settings) -> tuple[str, ...]:
    """Return by which names agents reach the server, besides those of its Service."""
    return HOSTS.read_list(settings)
