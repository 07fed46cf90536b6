"""`watchword unjoin`: takes the cluster of a kubeconfig out of its hub."""

from __future__ import annotations

from typing import Any

import click

from watchword.cli.connection_options import Connection, connection_options
from watchword.cli.discovery_options import tell
from watchword.cli.verb_options import LEFTOVERS, cluster_name, output_option, write_document
from watchword.fleet.joining import KLUSTERLET
from watchword.fleet.leaving import Departure, Farewell, find_stay
from watchword.runtime.loop import run


@click.command("unjoin")
@click.option("--cluster-name", default="", help="The name under which this cluster joined; required.")
@click.option("--klusterlet-name", "klusterlet", default=KLUSTERLET, show_default=True, help="One for each hub.")
@click.option("--namespace", default="", help="Where the agent runs; by default as the Klusterlet says.")
@click.option("--purge-operator/--keep-operator", default=True, help="Remove the operator with the last Klusterlet.")
@click.option("--wait", is_flag=True, hidden=True, help="Accepted: it is always waited for, a minute at most.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and change nothing.")
@output_option()
@connection_options
def command(connection: Connection, output: str, **flags: Any) -> int:
    """Take this cluster out of its hub.

    The hub is told with the cluster's own credential and takes the rights away; then the agent, its rights and its
    credentials are removed here. When the hub cannot be reached, this side is cleaned up all the same, and the
    command that finishes the work is printed (exit code 5). It takes a minute at most.
    """
    name = cluster_name(flags["cluster_name"])
    farewell = run(_unjoin(connection, name, flags))
    if output != "table":
        click.echo(write_document(_document(farewell, name), output), nl=False)
    else:
        _show(farewell, name, dry_run=flags["dry_run"])
    return LEFTOVERS if farewell is not None and farewell.left else 0


async def _unjoin(connection: Connection, name: str, flags: dict[str, Any]) -> Farewell | None:
    async with connection.client() as client:
        stay = await find_stay(client, flags["klusterlet"], name, flags["namespace"])
        departure = Departure(client, tell, flags["dry_run"], flags["purge_operator"])
        return None if stay is None else await departure.run(stay)


def _show(farewell: Farewell | None, name: str, *, dry_run: bool) -> None:
    if farewell is None:
        click.echo(f"{name}: this cluster belongs to no hub")
        return
    for thing in farewell.removed:
        click.echo(f"{'would remove' if dry_run else 'removed'} {thing}")
    for leftover in farewell.left:
        click.echo(f"left: {leftover.what}\n  finish with: {leftover.command}")
    if not dry_run:
        click.echo(f"{name}: left its hub" + ("" if farewell.hub_told else ", which does not know yet"))


def _document(farewell: Farewell | None, name: str) -> dict[str, Any]:
    if farewell is None:
        return {"cluster": name, "joined": False, "hubTold": False, "removed": [], "left": []}
    left = [{"what": leftover.what, "command": leftover.command} for leftover in farewell.left]
    return {
        "cluster": farewell.cluster,
        "joined": False,
        "hubTold": farewell.hub_told,
        "removed": list(farewell.removed),
        "left": left,
    }
