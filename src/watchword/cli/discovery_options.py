"""The discovery flags of `join` and `discover`, and the one method that they add up to."""

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import timedelta

import click
from msgspec import Struct

from watchword.cli.options import argument, duration, flag, gathered, many, text
from watchword.cli.output import interruptible
from watchword.cli.secret_input import HELP, TOKEN_VARIABLE, SecretReader
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.discover import (
    BootstrapTokenDiscovery,
    ClusterDiscovery,
    HttpsClientFactory,
    PollOptions,
    Progress,
)
from watchword.discovery.discovery_document import STANDARD_INPUT, parse_endpoint, read_document
from watchword.discovery.tokens import BootstrapToken
from watchword.pki.keys import Pin


class DiscoveryFlags(Struct, frozen=True):
    """What stood on the command line."""

    endpoint: str = ""
    token: str = ""
    discovery_token: str = ""
    tls_bootstrap_token: str = ""
    discovery_file: str = ""
    pins: tuple[str, ...] = ()
    unsafe_skip: bool = False


class DiscoveryPlan(Struct, frozen=True):
    """How the cluster will be found, and the token for the certificate, if any."""

    by_token: BootstrapTokenDiscovery | None
    by_document: str
    tls_token: BootstrapToken | None
    timeout: timedelta

    async def discover(self, progress: Progress) -> ClusterInfo:
        """Find the cluster; raises `DiscoveryError`."""
        discovery = ClusterDiscovery(HttpsClientFactory(), PollOptions(self.timeout), progress)
        if self.by_token is not None:
            return await discovery.by_token(self.by_token)
        with interruptible() if self.by_document == STANDARD_INPUT else nullcontext():
            document = await read_document(self.by_document, sys.stdin.buffer)
        return await discovery.by_document(document)


def choose_plan(flags: DiscoveryFlags, secrets: SecretReader, *, timeout: timedelta) -> DiscoveryPlan:
    """Decide on exactly one way of discovery; raise `click.UsageError` when the flags name none or several."""
    if flags.discovery_file == STANDARD_INPUT:
        secrets.take_standard_input()
    shared = secrets.read(flags.token) if flags.token else ""
    discovery = secrets.read(flags.discovery_token) if flags.discovery_token else shared
    bootstrap = secrets.read(flags.tls_bootstrap_token) if flags.tls_bootstrap_token else ""
    if not discovery and not flags.discovery_file:
        discovery = secrets.from_environment()
    if flags.discovery_file and discovery:
        raise click.UsageError(
            "--discovery-file and --discovery-token exclude each other, and --token counts as --discovery-token: for "
            "a certificate with a discovery file, give --tls-bootstrap-token"
        )
    if not flags.discovery_file and not discovery:
        raise click.UsageError(
            f"say how to find the cluster: --token (or ${TOKEN_VARIABLE}) with its address, or --discovery-file"
        )
    tls = bootstrap or shared or discovery  # as kubeadm: --token serves where no other token is named
    return DiscoveryPlan(
        by_token=None if flags.discovery_file else _by_token(flags, discovery),
        by_document=flags.discovery_file,
        tls_token=BootstrapToken.parse(tls) if tls else None,
        timeout=timeout,
    )


def _by_token(flags: DiscoveryFlags, token: str) -> BootstrapTokenDiscovery:
    if not flags.endpoint:
        raise click.UsageError("discovery by token needs the address of the API server: give HOST:PORT")
    pins = parse_pins(flags.pins)
    if not pins and not flags.unsafe_skip:
        raise click.UsageError(
            "give --discovery-token-ca-cert-hash, which `watchword token create --print-join-command` prints: without "
            "it, any holder of the token can pose as the hub; --discovery-token-unsafe-skip-ca-verification waives it"
        )
    return BootstrapTokenDiscovery(parse_endpoint(flags.endpoint), BootstrapToken.parse(token), pins, flags.unsafe_skip)


def parse_pins(texts: Iterable[str]) -> tuple[Pin, ...]:
    return tuple(Pin.parse(part.strip()) for text in texts for part in text.split(","))


_OPTIONS = (
    argument("endpoint", metavar="[HOST:PORT]", default=""),
    text("--token", help=f"Bootstrap token for discovery and for the certificate request. {HELP}."),
    text("--discovery-token", help=f"Bootstrap token that verifies cluster-info; by default --token. {HELP}."),
    text("--tls-bootstrap-token", help=f"Bootstrap token that requests the certificate; by default --token. {HELP}."),
    text("--discovery-file", help="File or https URL of cluster-info; - reads standard input."),
    many(
        "--discovery-token-ca-cert-hash",
        "pins",
        metavar="sha256:HEX",
        help="Hash of the public key of the hub's CA; repeatable, one must match.",
    ),
    flag(
        "--discovery-token-unsafe-skip-ca-verification",
        "unsafe_skip",
        help="Skip the check of the CA's hash: any holder of the token can then impersonate the hub.",
    ),
    duration("--discovery-timeout", default="5m", help="Time limit of discovery."),
)


discovery_flags = gathered("given", DiscoveryFlags, *_OPTIONS)
"""Adds the discovery flags to a command: it gets `given`, a `DiscoveryFlags`, and `discovery_timeout`."""


def _plan(given: DiscoveryFlags, discovery_timeout: timedelta) -> DiscoveryPlan:
    return choose_plan(given, SecretReader(), timeout=discovery_timeout)


discovery_options = gathered("plan", _plan, discovery_flags)
"""Adds the flags; the command gets one argument, `plan`, a `DiscoveryPlan`."""
