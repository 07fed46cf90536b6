"""`watchword deny`: takes the rights from clusters, or turns a single request away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from watchword.cli.connection_options import Connection, connection_options
from watchword.cli.discovery_options import tell
from watchword.cli.verb_options import cluster_names, output_option, split, waiting_options, write_document
from watchword.fleet.denying import await_denied, deny, deny_request
from watchword.fleet.hub_desk import Decision, HubDesk
from watchword.fleet.watching import Watcher
from watchword.runtime.clock import SystemClock
from watchword.runtime.loop import run


@click.command("deny")
@click.option("--clusters", "-c", multiple=True, help="The clusters to deny; several, separated by commas.")
@click.option("--request", "requests", multiple=True, help="Certificate requests to turn away, by name.")
@click.option("--dry-run", is_flag=True, help="Ask the server whether it would do it, and change nothing.")
@waiting_options("the rights are gone")
@output_option()
@connection_options
def command(connection: Connection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Take the rights from clusters, and turn away what is pending under their names.

    The ManagedCluster and its namespace stay, so that the cluster can be accepted again; delete the ManagedCluster
    to remove everything. With --request, only that one certificate request is turned away.
    """
    requests = split(flags["requests"])
    if bool(requests) == bool(flags["clusters"]):
        raise click.UsageError("say what to deny: either --clusters NAME or --request NAME")
    names = () if requests else cluster_names(flags["clusters"])
    decisions = run(_deny(connection, names, requests, wait, dry_run=flags["dry_run"]))
    if output != "table":
        click.echo(write_document([_document(decision) for decision in decisions], output), nl=False)
        return
    for decision in decisions:
        click.echo(_sentence(decision, dry_run=flags["dry_run"]))


async def _deny(
    connection: Connection,
    names: tuple[str, ...],
    requests: tuple[str, ...],
    wait: timedelta | None,
    *,
    dry_run: bool,
) -> list[Decision]:
    async with connection.client() as client:
        desk = HubDesk(client, SystemClock(), dry_run)
        decisions = [await deny(desk, name) for name in names]
        decisions += [await deny_request(desk, name) for name in requests]
        if wait is not None and not dry_run:
            for name in names:
                await await_denied(Watcher(client, wait, tell), name)
    return decisions


def _sentence(decision: Decision, *, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    turned_away = f"request {', '.join(decision.requests)} {would}denied" if decision.requests else ""
    if not decision.cluster:
        return turned_away or "the request was denied before"
    said = (
        f"cluster {decision.cluster} {would}denied" if decision.changed else f"cluster {decision.cluster} has no rights"
    )
    return f"{said}; {turned_away}" if turned_away else said


def _document(decision: Decision) -> dict[str, Any]:
    return {
        "cluster": decision.cluster,
        "accepted": False,
        "changed": decision.changed or bool(decision.requests),
        "deniedRequests": list(decision.requests),
    }
