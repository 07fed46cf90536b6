"""`watchword logs`: what operator, hub or agent of a cluster log."""

from contextlib import suppress
from typing import Any

import click

from watchword.admin.workloads import Component, LogRequest, find_pods, read_log
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import flag
from watchword.cli.output import echo
from watchword.kube.client import Client


@click.command("logs")
@click.argument("component", type=click.Choice(("hub", "agent", "operator")))
@flag("--follow", "-f", help="Print new lines until interrupted.")
@click.option("--tail", type=click.IntRange(0), help="Number of lines from the end to print; all by default.")
@flag("--previous", "-p", help="Print the log of the container before its last restart.")
@connection_options
def command(connection: ClusterConnection, component: str, **flags: Any) -> None:
    """Print the logs of the hub, the agent or the operator.

    It is what `kubectl logs` prints for the newest pod of the component, without its name having to be known.
    """

    async def show(client: Client) -> None:
        newest = (await find_pods(client, Component(component)))[-1]
        async for piece in read_log(client, newest, LogRequest(**flags)):
            echo(piece.decode(errors="replace"), nl=False)

    with suppress(KeyboardInterrupt):
        connection.run(show)
