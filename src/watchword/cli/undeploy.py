"""`watchword undeploy`: removes what the operator deployed, while the operator still runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import parse_duration_flag
from watchword.cli.output import echo

if TYPE_CHECKING:
    from datetime import timedelta

    from watchword.api.meta import Resource


@click.command("undeploy")
@click.option("--timeout", default="4m", show_default=True, help="How long to wait for the operator.")
@click.option("--cluster-manager", "managers", multiple=True, help="The ClusterManager to delete.")
@click.option("--klusterlet", "klusterlets", multiple=True, help="The Klusterlet to delete.")
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Delete a ClusterManager or a Klusterlet, and wait until it is gone.

    It is gone once the operator has removed what it deployed for it. Clusters, their kinds and the rights of clusters
    on the hub stay. `helm uninstall` runs this command before it removes the operator.
    """
    from watchword.api.resources import CLUSTER_MANAGERS, KLUSTERLETS
    from watchword.runtime.event_loop import run

    kinds = ((KLUSTERLETS, flags["klusterlets"]), (CLUSTER_MANAGERS, flags["managers"]))
    wanted = [(resource, name) for resource, names in kinds for name in names]
    if not wanted:
        raise click.UsageError("name what to delete with --cluster-manager or --klusterlet")
    for name in run(_undeploy(connection, wanted, parse_duration_flag(flags["timeout"], "--timeout"))):
        echo(f"{name} deleted")


async def _undeploy(
    connection: ClusterConnection, wanted: list[tuple[Resource, str]], patience: timedelta
) -> list[str]:
    from watchword.admin.operator_deployment import delete_deployed

    async with connection.client() as client:
        return await delete_deployed(client, wanted, patience)
