"""`watchword undeploy`: removes what controllers made, while they still run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from watchword.admin.hub_removal import remove_pull_secrets
from watchword.admin.workloads import delete_deployed
from watchword.api.meta import Resource
from watchword.api.resources import CLUSTER_MANAGERS, KLUSTERLETS
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import parse_duration_flag, print_progress
from watchword.cli.options import flag, option
from watchword.cli.output import echo
from watchword.runtime.event_loop import run


@click.command("undeploy")
@option("--timeout", default="4m", help="Time limit of the removal.")
@click.option("--cluster-manager", "managers", multiple=True, help="Name of a ClusterManager to delete; repeatable.")
@click.option("--klusterlet", "klusterlets", multiple=True, help="Name of a Klusterlet to delete; repeatable.")
@flag("--pull-secrets", help="Disable pull secrets and wait until their controllers have removed them.")
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
    for name in run(_undeploy(connection, wanted, patience, pull_secrets=flags["pull_secrets"])):
        echo(f"{name} deleted")


async def _undeploy(
    connection: ClusterConnection, wanted: list[tuple[Resource, str]], patience: timedelta, *, pull_secrets: bool
) -> list[str]:
    async with connection.client() as client:
        removed = pull_secrets and await remove_pull_secrets(client, patience, print_progress)
        return [*(["pull secrets"] if removed else []), *await delete_deployed(client, wanted, patience)]
