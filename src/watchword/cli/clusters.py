"""`watchword clusters`: the clusters of a hub, in a table or one by one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from watchword.admin.accept import HubAdmin
from watchword.admin.lookup import get_named
from watchword.api.conditions import conditions_of, find_condition
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.quantity import parse_quantity
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.text import escape_text
from watchword.api.time import parse_rfc3339
from watchword.cli.connection_options import ClusterConnection, cluster_options, complete_clusters, connection_options
from watchword.cli.lists import ListRequest, list_options, object_listing, print_list
from watchword.cli.options import argument
from watchword.cli.output import show_result, without_managed_fields
from watchword.cli.token import format_duration_left
from watchword.credentials.certificates.name_ownership import claimed_subject, well_formed_requests
from watchword.credentials.certificates.requests import is_pending
from watchword.health.formatting import format_key
from watchword.health.states import is_accepted
from watchword.runtime.clock import SystemClock

COLUMNS = ("NAME", "ACCEPTED", "JOINED", "AVAILABLE", "SET", "CPU", "MEMORY", "VERSION", "AGE")
NONE = "<none>"
GIBIBYTE = 1024**3


def cluster_row(cluster: Object, now: datetime) -> tuple[str, ...]:
    status = cluster.get("status") or {}
    capacity = status.get("capacity") or {}
    return (
        cluster["metadata"]["name"],
        "true" if is_accepted(cluster) else "denied" if Annotation.DENIED_ON in annotations_of(cluster) else "false",
        _condition_status(cluster, ConditionType.JOINED),
        _condition_status(cluster, ConditionType.AVAILABLE),
        labels_of(cluster).get(Label.CLUSTER_SET) or NONE,
        str(capacity.get("cpu") or NONE),
        _memory(capacity.get("memory")),
        (status.get("version") or {}).get("kubernetes") or NONE,
        format_object_age(cluster, now),
    )


def format_object_age(obj: Object, now: datetime) -> str:
    created = parse_rfc3339(str(obj["metadata"].get("creationTimestamp") or ""))
    return NONE if created is None else format_duration_left(max(now - created, timedelta(seconds=1)))


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


LISTING = object_listing(MANAGED_CLUSTERS, COLUMNS, cluster_row, empty="there are no clusters")


@click.group("clusters", invoke_without_command=True)
@list_options()
@connection_options
@click.pass_context
def command(ctx: click.Context, connection: ClusterConnection, request: ListRequest) -> None:
    """List the clusters of a hub."""
    if ctx.invoked_subcommand is None:
        print_list(connection, LISTING, request)


@command.command("list")
@list_options()
@connection_options
def list_(connection: ClusterConnection, request: ListRequest) -> None:
    """List the clusters of a hub."""
    print_list(connection, LISTING, request)


@command.command("show")
@argument("name", shell_complete=complete_clusters)
@cluster_options(output=True)
async def show(connection: ClusterConnection, name: str, output: str) -> None:
    """Show one cluster: conditions, claims, and the certificate requests under its name."""
    async with connection.client() as client:
        cluster = await get_named(client, MANAGED_CLUSTERS, ObjectKey.cluster(name))
        requests = await HubAdmin(client, SystemClock()).csrs_of(name)
    show_result(without_managed_fields(cluster), output, lambda: describe_cluster(cluster, requests, datetime.now(UTC)))
