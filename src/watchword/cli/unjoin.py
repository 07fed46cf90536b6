"""`watchword unjoin`: takes the cluster of a kubeconfig out of its hub."""

from __future__ import annotations

from typing import Any

import click

from watchword.admin.join import KLUSTERLET
from watchword.admin.unjoin import Unjoiner, UnjoinResult, find_membership
from watchword.cli._exit_codes import ExitCode
from watchword.cli.common_options import cluster_name, format_document, output_option
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import print_progress
from watchword.cli.options import flag, option, text
from watchword.cli.output import echo
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run


@click.command("unjoin")
@text("--cluster-name", help="Name of this cluster on the hub; required.")
@option(
    "--klusterlet-name", "klusterlet", default=KLUSTERLET, help="Name of the Klusterlet; a cluster has one per hub."
)
@text("--namespace", help="Namespace of the agent; by default the Klusterlet's.")
@click.option("--purge-operator/--keep-operator", default=True, help="Remove the operator with the last Klusterlet.")
@flag("--wait", hidden=True, help="Ignored; unjoin always waits, one minute at most.")
@flag("--dry-run", help="Print what would be removed without changing anything.")
@output_option()
@connection_options
def command(connection: ClusterConnection, output: str, **flags: Any) -> int:
    """Remove this cluster from its hub.

    The hub is notified with the cluster's own credential and removes the rights; then the agent, its rights and its
    credentials are removed here. When the hub cannot be reached, this side is cleaned up all the same, and the
    command that finishes the work is printed (exit code 5). Where this machine has no way to the hub, or a plugin gives
    the credential to the agent's pods alone, the agent notifies the hub. It takes a minute and a half at most.
    """
    name = cluster_name(flags["cluster_name"])
    result = run(_unjoin(connection, name, flags))
    if output != "table":
        echo(format_document(_document(result, name), output), nl=False)
    else:
        _show(result, name, dry_run=flags["dry_run"])
    return ExitCode.LEFTOVERS if result is not None and result.left else ExitCode.DONE


async def _unjoin(connection: ClusterConnection, name: str, flags: dict[str, Any]) -> UnjoinResult | None:
    async with connection.client() as client:
        membership = await find_membership(client, flags["klusterlet"], name, flags["namespace"])
        unjoiner = Unjoiner(client, SystemClock(), print_progress, flags["dry_run"], flags["purge_operator"])
        return None if membership is None else await unjoiner.run(membership)


def _show(result: UnjoinResult | None, name: str, *, dry_run: bool) -> None:
    if result is None:
        echo(f"{name}: this cluster belongs to no hub")
        return
    for thing in result.removed:
        echo(f"{'would remove' if dry_run else 'removed'} {thing}")
    for leftover in result.left:
        echo(f"left: {leftover.what}\n  finish with: {leftover.command}")
    if not dry_run:
        echo(f"{name}: left its hub" + ("" if result.hub_notified else ", which does not know yet"))


def _document(result: UnjoinResult | None, name: str) -> dict[str, Any]:
    if result is None:
        return {"cluster": name, "joined": False, "hubTold": False, "removed": [], "left": []}
    left = [{"what": leftover.what, "command": leftover.command} for leftover in result.left]
    return {
        "cluster": result.cluster,
        "joined": False,
        "hubTold": result.hub_notified,
        "removed": list(result.removed),
        "left": left,
    }
