"""`watchword rotate`: renews a credential before its time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from watchword.admin.rotate import CredentialRotator
from watchword.cli.connection_options import ClusterConnection, complete_clusters, connection_options
from watchword.cli.discovery_options import parse_duration_flag, print_progress
from watchword.cli.options import flag, option
from watchword.cli.output import echo
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run


@click.group("rotate")
def command() -> None:
    """Renew a credential now.

    The request goes through the hub. The holder keeps the old credential until it has the new one, and serves each
    request once. A holder that is offline renews when it reconnects.
    """


def _waiting(verb: Callable[..., None]) -> Any:
    verb = option("--timeout", default="2m", help="Time limit of the wait.")(verb)
    return flag("--no-wait", help="Do not wait for the renewal.")(verb)


@command.command("cluster")
@click.argument("name", shell_complete=complete_clusters)
@_waiting
@connection_options
def cluster(connection: ClusterConnection, name: str, no_wait: bool, timeout: str) -> None:  # noqa: FBT001 - a flag
    """Renew the credential of the cluster NAME."""
    wait = None if no_wait else parse_duration_flag(timeout, "--timeout")
    _rotate(connection, f"cluster {name}", lambda rotator: rotator.cluster(name, wait))


@command.command("addon")
@click.argument("name")
@click.option(
    "--cluster",
    "--clusters",
    "cluster_name",
    required=True,
    shell_complete=complete_clusters,
    help="Name of the add-on's cluster.",
)
@_waiting
@connection_options
def addon(connection: ClusterConnection, name: str, cluster_name: str, no_wait: bool, timeout: str) -> None:  # noqa: FBT001 - a flag
    """Renew the credential of the add-on NAME on one cluster."""
    wait = None if no_wait else parse_duration_flag(timeout, "--timeout")
    _rotate(connection, f"add-on {name} on {cluster_name}", lambda rotator: rotator.addon(cluster_name, name, wait))


def _rotate(connection: ClusterConnection, whom: str, act: Callable[[CredentialRotator], Awaitable[str]]) -> None:
    async def main() -> str:
        async with connection.client() as client:
            return await act(CredentialRotator(client, SystemClock(), print_progress))

    said = run(main())
    echo(f"{whom}: {said}" if said else f"{whom}: asked to renew")
