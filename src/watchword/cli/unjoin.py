"""`watchword unjoin`: takes the cluster of a kubeconfig out of its hub."""

from typing import Any

import click

from watchword.admin.join import KLUSTERLET
from watchword.admin.unjoin import Unjoiner, UnjoinResult, find_membership
from watchword.cli import common_options
from watchword.cli._exit_codes import ExitCode
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import print_progress
from watchword.cli.options import flag, option, text
from watchword.kube.client import Client
from watchword.runtime.clock import SystemClock


@click.command("unjoin")
@common_options.own_cluster_name
@option(
    "--klusterlet-name", "klusterlet", default=KLUSTERLET, help="Name of the Klusterlet; a cluster has one per hub."
)
@text("--namespace", help="Namespace of the agent; by default the Klusterlet's.")
@click.option("--purge-operator/--keep-operator", default=True, help="Remove the operator with the last Klusterlet.")
@flag("--wait", hidden=True, help="Ignored; unjoin always waits, one minute at most.")
@common_options.change_options("Print what would be removed without changing anything.", asks=True)
@common_options.output_option()
@connection_options
def command(connection: ClusterConnection, output: str, **flags: Any) -> int:
    """Remove this cluster from its hub.

    The hub is notified with the cluster's own credential and removes the rights; then the agent, its rights and its
    credentials are removed here. When the hub cannot be reached, this side is cleaned up all the same, and the
    command that finishes the work is printed (exit code 5). Where this machine has no way to the hub, or a plugin gives
    the credential to the agent's pods alone, the agent notifies the hub. It takes a minute and a half at most.
    """
    name = common_options.cluster_name(flags["cluster_name"])
    result = connection.run(lambda client: _unjoin(client, name, flags))
    common_options.show_result(
        _document(result, name), output, lambda: _describe(result, name, dry_run=flags["dry_run"])
    )
    return ExitCode.LEFTOVERS if result is not None and result.left else ExitCode.DONE


async def _unjoin(client: Client, name: str, flags: dict[str, Any]) -> UnjoinResult | None:
    membership = await find_membership(client, flags["klusterlet"], name, flags["namespace"])
    if membership is None:
        return None
    if not flags["dry_run"]:
        common_options.confirm(f"Remove cluster {name} from its hub?", "", yes=flags["yes"], needs_terminal=False)
    return await Unjoiner(client, SystemClock(), print_progress, flags["dry_run"], flags["purge_operator"]).run(
        membership
    )


def _describe(result: UnjoinResult | None, name: str, *, dry_run: bool) -> str:
    if result is None:
        return f"{name}: this cluster belongs to no hub"
    lines = [f"{'would remove' if dry_run else 'removed'} {thing}" for thing in result.removed]
    lines += [f"left: {leftover.what}\n  finish with: {leftover.command}" for leftover in result.left]
    if not dry_run:
        lines.append(f"{name}: left its hub" + ("" if result.hub_notified else ", which does not know yet"))
    return "\n".join(lines)


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
