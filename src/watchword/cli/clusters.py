"""`watchword clusters`: the clusters of a hub, in a table or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from watchword.admin.errors import OperationRefused
from watchword.admin.hub_admin import HubAdmin
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import ConditionType, Label
from watchword.api.quantity import parse_quantity
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.text import escape_text
from watchword.api.time import parse_rfc3339
from watchword.cli.common_options import format_document, output_option
from watchword.cli.connection_options import ClusterConnection, complete_clusters, connection_options
from watchword.cli.options import text
from watchword.cli.output import echo, render_table, terminal_width
from watchword.cli.token import format_duration_left
from watchword.credentials.certificates.approval import is_pending
from watchword.credentials.certificates.manual_approval import claimed_subject, well_formed_requests
from watchword.health.formatting import format_key
from watchword.health.hub_reader import require_hub
from watchword.health.inventory import decide_each
from watchword.health.states import is_accepted
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run

COLUMNS = ("NAME", "ACCEPTED", "JOINED", "AVAILABLE", "SET", "CPU", "MEMORY", "VERSION", "AGE")
NONE = "<none>"
GIBIBYTE = 1024**3


def cluster_row(cluster: Object, now: datetime) -> tuple[str, ...]:
    status = cluster.get("status") or {}
    capacity = status.get("capacity") or {}
    return (
        cluster["metadata"]["name"],
        "true" if is_accepted(cluster) else "false",
        _condition_status(cluster, ConditionType.JOINED),
        _condition_status(cluster, ConditionType.AVAILABLE),
        labels_of(cluster).get(Label.CLUSTER_SET) or NONE,
        str(capacity.get("cpu") or NONE),
        _memory(capacity.get("memory")),
        (status.get("version") or {}).get("kubernetes") or NONE,
        format_object_age(cluster, now),
    )


def _unreadable_row(cluster: Object, _: str) -> tuple[str, ...]:
    accepted = "true" if is_accepted(cluster) else "false"
    return (cluster["metadata"]["name"], accepted, *(["unreadable"] * (len(COLUMNS) - 2)))


def format_object_age(obj: Object, now: datetime) -> str:
    created = parse_rfc3339(str(obj["metadata"].get("creationTimestamp") or ""))
    return NONE if created is None else format_duration_left(now - created).replace("<expired>", "0s")


def describe_cluster(cluster: Object, requests: Sequence[Object], now: datetime) -> str:
    facts = dict(zip(COLUMNS, cluster_row(cluster, now), strict=True))
    lines = [f"{name.capitalize() + ':':<12}{value}" for name, value in facts.items()]
    claims = (cluster.get("status") or {}).get("clusterClaims") or []
    lines += [f"Claim:      {claim.get('name')}={claim.get('value')}" for claim in claims]
    lines.append("Conditions:")
    lines += [
        f"  {row.get('type')}={row.get('status')} {row.get('reason', '')}: {row.get('message', '')}"
        for row in conditions_of(cluster)
    ]
    pending = [csr for csr in requests if is_pending(csr)]
    if pending:
        lines.append("Pending requests:")
        lines += [f"  {_request(csr)}" for csr in pending]
    return "".join(f"{escape_text(line)}\n" for line in lines)


def without_managed_fields(obj: Object) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _request(csr: Object) -> str:
    keys = [format_key(request.key_thumbprint) for _, request in well_formed_requests([csr])]
    what = f"key {keys[0]}" if keys else f"subject {claimed_subject(csr)!r} does not fit the label"
    return f"{csr['metadata']['name']}: by {(csr.get('spec') or {}).get('username')}, {what}"


def _condition_status(cluster: Object, condition: str) -> str:
    found = find_condition(cluster, condition)
    return NONE if found is None else found.status


def _memory(text: Any) -> str:
    if not text:
        return NONE
    return f"{float(parse_quantity(str(text)) or 0) / GIBIBYTE:.1f}Gi"


@click.group("clusters", invoke_without_command=True)
@text("--selector", "-l", help="Label selector: list only the clusters that match.")
@output_option("name")
@connection_options
@click.pass_context
def command(ctx: click.Context, connection: ClusterConnection, output: str, selector: str) -> None:
    """List the clusters of a hub."""
    ctx.obj = connection
    if ctx.invoked_subcommand is None:
        _print_list(connection, selector, output)


@command.command("list")
@text("--selector", "-l", help="Label selector: list only the clusters that match.")
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
            now = datetime.now(UTC)
            rows = list(decide_each(clusters, lambda cluster: cluster_row(cluster, now), _unreadable_row))
            echo(render_table(COLUMNS, rows, width=terminal_width()), nl=False)
        case _:
            echo(format_document(_document(clusters), output), nl=False)


def _document(clusters: list[Object]) -> dict[str, Any]:
    items = [without_managed_fields(cluster) for cluster in clusters]
    return {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": "ManagedClusterList", "items": items}


async def _list(connection: ClusterConnection, selector: str) -> list[Object]:
    async with connection.client() as client:
        await require_hub(client)
        return (await client.list(MANAGED_CLUSTERS, labels=selector)).items


async def _show(connection: ClusterConnection, name: str) -> tuple[Object, list[Object]]:
    async with connection.client() as client:
        cluster = await client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
        if cluster is None:
            raise OperationRefused(f"there is no cluster {name}: `watchword clusters` lists all")
        return cluster, await HubAdmin(client, SystemClock()).csrs_of(name)
