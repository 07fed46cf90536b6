"""`watchword undeploy`: removes what controllers made, while they still run."""

from datetime import timedelta
from typing import Any

import click

from watchword.admin.hub_removal import remove_pull_secrets
from watchword.admin.workloads import delete_deployed
from watchword.api.resources import CLUSTER_MANAGERS, KLUSTERLETS
from watchword.cli.connection_options import ClusterConnection, cluster_options
from watchword.cli.options import duration, flag, many
from watchword.cli.output import confirm, echo, print_progress


@click.command("undeploy")
@duration("--timeout", "patience", default="4m", help="Time limit of the removal.")
@many("--cluster-manager", "managers", help="Name of a ClusterManager to delete; repeatable.")
@many("--klusterlet", "klusterlets", help="Name of a Klusterlet to delete; repeatable.")
@flag("--pull-secrets", help="Disable pull secrets and wait until their controllers have removed them.")
@cluster_options(dry_run="Print what would be deleted without changing anything.", asks=True)
async def command(connection: ClusterConnection, patience: timedelta, **flags: Any) -> None:
    """Delete deployed resources and wait until they are removed.

    A ClusterManager or a Klusterlet is gone once the operator has removed what it deployed for it. Clusters, their
    kinds and the rights of clusters on the hub stay. `helm uninstall` runs this command before it removes the rest.
    """
    kinds = ((KLUSTERLETS, flags["klusterlets"]), (CLUSTER_MANAGERS, flags["managers"]))
    wanted = [(resource, name) for resource, names in kinds for name in names]
    if not wanted and not flags["pull_secrets"]:
        raise click.UsageError("name what to delete with --cluster-manager, --klusterlet or --pull-secrets")
    named = [*(["pull secrets"] if flags["pull_secrets"] else []), *(f"{kind.kind} {name}" for kind, name in wanted)]
    if flags["dry_run"]:
        echo("\n".join(f"{name} would be deleted" for name in named))
        return
    confirm(f"Delete {', '.join(named)}?", "", yes=flags["yes"], needs_terminal=False)
    async with connection.client() as client:
        removed = flags["pull_secrets"] and await remove_pull_secrets(client, patience, print_progress)
        for name in [*(["pull secrets"] if removed else []), *await delete_deployed(client, wanted, patience)]:
            echo(f"{name} deleted")
