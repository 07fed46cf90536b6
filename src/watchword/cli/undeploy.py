"""`watchword undeploy`: removes what controllers made, while they still run."""

from typing import Any

import click

from watchword.admin.hub_removal import remove_pull_secrets
from watchword.admin.workloads import delete_deployed
from watchword.api.resources import CLUSTER_MANAGERS, KLUSTERLETS
from watchword.cli.common_options import change_options, confirm
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import parse_duration_flag, print_progress
from watchword.cli.options import flag, option
from watchword.cli.output import echo
from watchword.kube.client import Client


@click.command("undeploy")
@option("--timeout", default="4m", help="Time limit of the removal.")
@click.option("--cluster-manager", "managers", multiple=True, help="Name of a ClusterManager to delete; repeatable.")
@click.option("--klusterlet", "klusterlets", multiple=True, help="Name of a Klusterlet to delete; repeatable.")
@flag("--pull-secrets", help="Disable pull secrets and wait until their controllers have removed them.")
@change_options("Print what would be deleted without changing anything.", asks=True)
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Delete deployed resources and wait until they are removed.

    A ClusterManager or a Klusterlet is gone once the operator has removed what it deployed for it. Clusters, their
    kinds and the rights of clusters on the hub stay. `helm uninstall` runs this command before it removes the rest.
    """
    kinds = ((KLUSTERLETS, flags["klusterlets"]), (CLUSTER_MANAGERS, flags["managers"]))
    wanted = [(resource, name) for resource, names in kinds for name in names]
    if not wanted and not flags["pull_secrets"]:
        raise click.UsageError("name what to delete with --cluster-manager, --klusterlet or --pull-secrets")
    patience = parse_duration_flag(flags["timeout"], "--timeout")
    named = [*(["pull secrets"] if flags["pull_secrets"] else []), *(f"{kind.kind} {name}" for kind, name in wanted)]
    if flags["dry_run"]:
        echo("\n".join(f"{name} would be deleted" for name in named))
        return
    confirm(f"Delete {', '.join(named)}?", "", yes=flags["yes"], needs_terminal=False)

    async def work(client: Client) -> list[str]:
        removed = flags["pull_secrets"] and await remove_pull_secrets(client, patience, print_progress)
        return [*(["pull secrets"] if removed else []), *await delete_deployed(client, wanted, patience)]

    for name in connection.run(work):
        echo(f"{name} deleted")
