"""`watchword unjoin`: takes the cluster of a kubeconfig out of its hub."""

from typing import Any

import click
from msgspec.structs import asdict

from watchword.admin.join import KLUSTERLET
from watchword.admin.unjoin import Unjoiner, UnjoinResult, find_membership
from watchword.cli._exit_codes import ExitCode
from watchword.cli.connection_options import ClusterConnection, cluster_name, cluster_options, own_cluster_name
from watchword.cli.options import flag, named, option
from watchword.cli.output import confirm, print_progress, show_result
from watchword.runtime.clock import SystemClock


@click.command("unjoin")
@own_cluster_name
@option(
    "--klusterlet-name", "klusterlet", default=KLUSTERLET, help="Name of the Klusterlet; a cluster has one per hub."
)
@named("--namespace", default="", help="Namespace of the agent; by default the Klusterlet's.")
@click.option("--purge-operator/--keep-operator", default=True, help="Remove the operator with the last Klusterlet.")
@flag("--wait", hidden=True, help="Ignored; unjoin always waits, for a limited time.")
@cluster_options(dry_run="Print what would be removed without changing anything.", asks=True, output=True)
async def command(connection: ClusterConnection, output: str, **flags: Any) -> int:
    """Remove this cluster from its hub.

    The hub is notified with the cluster's own credential and removes the rights; then the agent, its rights and its
    credentials are removed here. When the hub cannot be reached, this side is cleaned up all the same, and the
    command that finishes the work is printed (exit code 5). Where this machine has no way to the hub, or a plugin gives
    the credential to the agent's pods alone, the agent notifies the hub.
    """
    name, dry_run, result = cluster_name(flags["cluster_name"]), flags["dry_run"], None
    async with connection.client() as client:
        membership = await find_membership(client, flags["klusterlet"], name, flags["namespace"])
        if membership is not None:
            confirm(f"Remove cluster {name} from its hub?", "", yes=flags["yes"] or dry_run, needs_terminal=False)
            unjoiner = Unjoiner(client, SystemClock(), print_progress, dry_run, flags["purge_operator"])
            result = await unjoiner.run(membership)
    show_result(_document(result, name), output, lambda: _describe(result, name, dry_run=dry_run))
    return ExitCode.LEFTOVERS if result is not None and result.left else ExitCode.DONE


def _describe(result: UnjoinResult | None, name: str, *, dry_run: bool) -> str:
    if result is None:
        return f"{name}: this cluster belongs to no hub"
    lines = [f"{'would remove' if dry_run else 'removed'} {thing}" for thing in result.removed]
    lines += [f"left: {leftover.what}\n  finish with: {leftover.command}" for leftover in result.left]
    if not dry_run:
        lines.append(f"{name}: left its hub" + ("" if result.hub_notified else ", which does not know yet"))
    return "\n".join(lines)


def _document(result: UnjoinResult | None, name: str) -> dict[str, Any]:
    removed, left = (result.removed, result.left) if result is not None else ((), ())
    notified = result is not None and result.hub_notified
    document = {"cluster": name, "joined": False, "hubTold": notified, "removed": list(removed)}
    return {**document, "left": [asdict(leftover) for leftover in left]}
