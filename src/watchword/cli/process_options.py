"""The common options of every long-running process: identity, health endpoints, shutdown."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from watchword.cli.connection_options import ClusterConnection
from watchword.cli.options import F, file_option, flag, option, text, with_options
from watchword.cli.output import echo_line

if TYPE_CHECKING:
    import ssl

    from watchword.kube.client import Client

LISTEN_HELP = "Address that serves /healthz, /readyz and /metrics; none by default."


def identity() -> str:
    """Return a name that no other replica has: the pod's, or the host's with something random."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"


class HostPort(click.ParamType[tuple[str, int] | None]):
    """HOST:PORT, or nothing for none."""

    name = "host:port"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int] | None:
        """Read the address; port 0 means a free one."""
        if not value:
            return None
        host, _, port = value.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT", param, ctx)
        return host or "127.0.0.1", int(port)


class KeyValuePairs(click.ParamType[dict[str, str]]):
    """NAME=VALUE, separated by commas."""

    name = "name=value,…"

    def convert(
        self, value: str | dict[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        rows = [row.partition("=") for row in value.split(",") if row]
        if any(not name or not sign for name, sign, _ in rows):
            self.fail(f"{value!r} is not a list of NAME=VALUE", param, ctx)
        return {name: text for name, _, text in rows}


class FeatureGates(click.ParamType[dict[str, bool]]):
    """FEATURE=true, separated by commas."""

    name = "feature=true,…"

    def convert(
        self, value: str | dict[str, bool], param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, bool]:
        """Read the switches; unknown features are kept, as other versions may know them."""
        if isinstance(value, dict):
            return value
        pairs = KeyValuePairs().convert(value, param, ctx)
        if any(text not in ("true", "false") for text in pairs.values()):
            self.fail(f"{value!r}: each feature is switched with true or false", param, ctx)
        return {name: text == "true" for name, text in pairs.items()}


def serving_options(default: str) -> Callable[[F], F]:
    """Add where and how a server listens; the command gets `serve`, `health` and what `read_tls` reads."""
    return with_options(
        option(
            "--serve",
            type=HostPort(),
            default=default,
            help="Address to serve on; port 0 selects a free one; hosts are separated by commas.",
        ),
        file_option("--tls-certificate", help="Serve TLS with this certificate (PEM)."),
        file_option("--tls-key", help="The private key of --tls-certificate (PEM)."),
        flag(
            "--insecure-http",
            help="Allow plain HTTP on an address that other machines reach, as behind a proxy that serves TLS.",
        ),
        text("--listen", "health", type=HostPort(), help=LISTEN_HELP),
    )


def read_tls(flags: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the certificate with which to serve; `click.UsageError` when there is none and tokens could be read."""
    from watchword.pullsecrets.registry_auth import serving_tls

    certificate, key = flags["tls_certificate"], flags["tls_key"]
    if bool(certificate) != bool(key):
        raise click.UsageError("--tls-certificate and --tls-key must be given together")
    if certificate:
        return serving_tls(certificate, key)
    if flags.get("login", True):  # without a login the dashboard requires loopback
        _require_tls(flags["serve"], allowed=flags["insecure_http"] or bool(flags.get("secure")))
    return None


def _require_tls(serve: tuple[str, int] | None, *, allowed: bool) -> None:
    """Refuse plain HTTP where other machines reach it, or print a warning when it is allowed."""
    from watchword.kube.endpoint import is_loopback_host

    if serve is None or is_loopback_host(serve[0]):
        return
    if not allowed:
        raise click.UsageError(
            f"other machines reach {serve[0]}, and plain HTTP would show them tokens: give --tls-certificate and "
            "--tls-key, or --insecure-http behind a proxy that serves TLS"
        )
    echo_line(f"warning: plain HTTP on {serve[0]}: tokens can be read on the way to the proxy", err=True)


process_options = with_options(
    text("--listen", "health", type=HostPort(), help=LISTEN_HELP),
    flag("--disable-leader-election", help="Start without a lease; only for a single replica."),
)


def run_until_stopped(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a process until Ctrl-C or SIGTERM; a second signal ends it at once."""
    from watchword.runtime.event_loop import run, stop_on_signals
    from watchword.runtime.logs import configure_logging

    verbosity = click.get_current_context().find_root().obj  # of the flags before the verb
    configure_logging(level="debug" if verbosity else "info")

    async def supervised() -> None:
        stop = asyncio.Event()
        with stop_on_signals(stop):
            await main(stop)

    run(supervised())


def run_process(
    connection: ClusterConnection, main: Callable[[Client, asyncio.Event], Coroutine[Any, Any, None]]
) -> None:
    """Run a process with a client of its cluster, until Ctrl-C or SIGTERM."""

    async def with_client(stop: asyncio.Event) -> None:
        async with connection.client() as client:
            await main(client, stop)

    run_until_stopped(with_client)


def read_cluster_name(kubeconfig: Path) -> str:
    """Return the cluster's name from the file beside an add-on's kubeconfig; `click.UsageError` without one."""
    path = kubeconfig.with_name("cluster-name")
    try:
        return path.read_text().strip()
    except OSError as cause:
        raise click.UsageError(f"give --cluster-name: {path} cannot be read") from cause
