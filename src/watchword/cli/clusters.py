"""`watchword clusters`: the clusters of a hub, in a table or one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from watchword.admin.errors import OperationRefused
from watchword.admin.hub_admin import HubAdmin
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.cli.cluster_output import COLUMNS, cluster_row, describe_cluster, without_managed_fields
from watchword.cli.common_options import format_document, output_option
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.name_completion import complete_clusters
from watchword.cli.output import echo, render_table, terminal_width
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run


@click.group("clusters", invoke_without_command=True)
@click.option("--selector", "-l", default="", help="Only clusters with these labels.")
@output_option("name")
@connection_options
@click.pass_context
def command(ctx: click.Context, connection: ClusterConnection, output: str, selector: str) -> None:
    """List the clusters of a hub: accepted, joined, available, and what they have."""
    ctx.obj = connection
    if ctx.invoked_subcommand is None:
        _print_list(connection, selector, output)


@command.command("list")
@click.option("--selector", "-l", default="", help="Only clusters with these labels.")
@output_option("name")
@connection_options
def list_(connection: ClusterConnection, output: str, selector: str) -> None:
    """List the clusters of a hub."""
    _print_list(connection, selector, output)


@command.command("show")
@click.argument("name", shell_complete=complete_clusters)
@output_option()
@connection_options
def show(connection: ClusterConnection, name: str, output: str) -> None:
    """Show one cluster: conditions, claims, and the certificate requests under its name."""
    cluster, requests = run(_show(connection, name))
    if output != "table":
        echo(format_document(without_managed_fields(cluster), output), nl=False)
        return
    echo(describe_cluster(cluster, requests, datetime.now(UTC)), nl=False)


def _print_list(connection: ClusterConnection, selector: str, output: str) -> None:
    clusters = run(_list(connection, selector))
    match output:
        case "name":
            kind = f"{MANAGED_CLUSTERS.kind.lower()}.{MANAGED_CLUSTERS.group}"
            echo("".join(f"{kind}/{cluster['metadata']['name']}\n" for cluster in clusters), nl=False)
        case "table":
            rows = [cluster_row(cluster, datetime.now(UTC)) for cluster in clusters]
            echo(render_table(COLUMNS, rows, width=terminal_width()), nl=False)
        case _:
            echo(format_document(_document(clusters), output), nl=False)


def _document(clusters: list[Object]) -> dict[str, Any]:
    items = [without_managed_fields(cluster) for cluster in clusters]
    return {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": "ManagedClusterList", "items": items}


async def _list(connection: ClusterConnection, selector: str) -> list[Object]:
    async with connection.client() as client:
        return (await client.list(MANAGED_CLUSTERS, labels=selector)).items


async def _show(connection: ClusterConnection, name: str) -> tuple[Object, list[Object]]:
    async with connection.client() as client:
        cluster = await client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        if cluster is None:
            raise OperationRefused(f"there is no cluster {name}: `watchword clusters` lists all")
        return cluster, await HubAdmin(client, SystemClock()).csrs_of(name)
