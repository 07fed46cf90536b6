"""`watchword rejoin`: brings a cluster back whose credential expired or was lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from watchword.cli.connection_options import Connection, connection_options
from watchword.cli.discovery_options import tell
from watchword.cli.hub_access_options import HubPlan, hub_access_options
from watchword.cli.verb_options import (
    cluster_name,
    output_option,
    split,
    waiting_options,
    with_options,
    write_document,
)
from watchword.fleet.accepting import Doorkeeper
from watchword.fleet.bootstrap_access import judge_welcome
from watchword.fleet.errors import Refused
from watchword.fleet.hub_desk import HubDesk
from watchword.fleet.joining import KLUSTERLET, cluster_uid
from watchword.fleet.leaving import find_stay
from watchword.fleet.rejoining import Candidate, TakeOver, await_credential, hand_in
from watchword.fleet.watching import Watcher
from watchword.hub.first_request import Terms
from watchword.runtime.clock import SystemClock
from watchword.runtime.loop import run

OPTIONS = (
    click.option("--cluster-name", "--clusters", "cluster_name", default="", help="The name of the cluster; required."),
    click.option("--take-over", is_flag=True, help="On the hub: let a new key have the name of a joined cluster."),
    click.option("--requesters", multiple=True, help="With --take-over: users that may ask, besides the tokens."),
    click.option("--request", default="", help="With --take-over: the one request to approve, where several pend."),
    click.option("--yes", "-y", is_flag=True, help="With --take-over: do not ask for confirmation."),
    click.option("--klusterlet-name", "klusterlet", default=KLUSTERLET, show_default=True, help="One for each hub."),
    click.option("--namespace", default="", help="Where the agent runs; by default as the Klusterlet says."),
    click.option("--dry-run", is_flag=True, help="Decide and ask the servers, and change nothing."),
)


@click.command("rejoin")
@hub_access_options
@with_options(*OPTIONS)
@waiting_options("the agent holds a valid credential; on the hub, until a new key has asked")
@output_option()
@connection_options
def command(
    connection: Connection, hub: Callable[[], HubPlan], output: str, wait: timedelta | None, **flags: Any
) -> None:
    """Bring a cluster back whose credential expired or was lost.

    On the cluster it hands the agent a new token; the hub is named as for `join`. On the hub, with --take-over, it
    lets the new key have the name: the old certificate is not revoked, deny the cluster for that.
    """
    name = cluster_name(flags["cluster_name"])
    work = (
        _take_over(connection, name, wait, flags)
        if flags["take_over"]
        else _hand_in(connection, hub(), name, wait, flags)
    )
    document = run(work)
    if output != "table":
        click.echo(write_document(document, output), nl=False)
    else:
        click.echo(f"{name}: {document['state']}" + (f"\n{document['next']}" if document["next"] else ""))


async def _hand_in(
    connection: Connection, hub: HubPlan, name: str, wait: timedelta | None, flags: dict[str, Any]
) -> dict[str, Any]:
    dry_run = flags["dry_run"]
    async with connection.client() as client:
        stay = await find_stay(client, flags["klusterlet"], name, flags["namespace"])
        if stay is None:
            raise Refused(f"this cluster has not joined as {name}: use `watchword join --cluster-name {name}`")
        access = await hub.find(tell)
        async with access.client() as joining:
            await judge_welcome(joining, name, await cluster_uid(client))
        applied = await hand_in(client, stay.namespace, access, dry_run=dry_run)
        if wait is not None and not dry_run:
            await await_credential(Watcher(client, wait, tell), stay.namespace, SystemClock())
    state = "would get a new token" if dry_run else "is back" if wait is not None else "has a new token"
    advice = f"if its old certificate has expired, run on the hub: watchword rejoin --take-over --cluster-name {name}"
    return {"cluster": name, "state": state, "applied": [applied], "next": "" if wait is not None else advice}


async def _take_over(
    connection: Connection, name: str, wait: timedelta | None, flags: dict[str, Any]
) -> dict[str, Any]:
    async with connection.client() as client:
        terms = Terms(frozenset(split(flags["requesters"])), chosen=flags["request"])
        work = TakeOver(Doorkeeper(HubDesk(client, SystemClock(), flags["dry_run"]), terms, tell), tell)
        candidate = await work.candidate(name)
        if not flags["yes"] and not flags["dry_run"]:
            _confirm(candidate)
        decision = await work.run(name, wait)
    return {
        "cluster": name,
        "state": f"{'would be' if flags['dry_run'] else 'is'} taken over by the key {decision.key[:16]}",
        "approvedRequests": list(decision.requests),
        "keyThumbprint": decision.key,
        "next": "",
    }


def _confirm(candidate: Candidate) -> None:
    """Show who asks, and let a person say yes."""
    owner = f" (identity {candidate.owner})" if candidate.owner else ""
    click.echo(f"the name {candidate.cluster} belongs to a cluster that has joined{owner}", err=True)
    for request in candidate.requests:
        click.echo(f"  {request.requester} asks for it with the key {request.key_thumbprint[:16]}", err=True)
    if not sys.stdin.isatty():
        raise Refused("nobody can be asked here whether a new key may have this name: say so with --yes")
    click.confirm("let a new key have this name?", abort=True, err=True)
