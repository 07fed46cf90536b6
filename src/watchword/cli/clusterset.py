"""`watchword clusterset`: the cluster sets of a hub, the clusters in them, and the namespaces that use them."""

from datetime import datetime

import click

from watchword.admin.cluster_sets import ClusterSetAdmin, ClusterSetRow
from watchword.api.resources import MANAGED_CLUSTER_SETS
from watchword.cli.clusters import format_object_age
from watchword.cli.connection_options import ClusterConnection, cluster_options, complete_clusters, connection_options
from watchword.cli.lists import Listing, ListRequest, list_options, print_list
from watchword.cli.options import argument, many, split
from watchword.cli.output import confirm, echo, without_managed_fields

COLUMNS = ("NAME", "CLUSTERS", "BOUND TO", "AGE")
NAMESPACE = many("--namespace", "-n", "namespaces", required=True, help="Namespaces on the hub, separated by commas.")
CLUSTERS = argument("clusters", nargs=-1, required=True, metavar="CLUSTER...", shell_complete=complete_clusters)


@click.group("clusterset")
def command() -> None:
    """Create cluster sets, fill them, and bind them to namespaces.

    A cluster is in one set. Accounts and placements in a namespace that a set is bound to reach its clusters.
    """


def _row(row: ClusterSetRow, now: datetime) -> tuple[str, ...]:
    name, bound = row.found["metadata"]["name"], ",".join(row.namespaces)
    return name, str(len(row.clusters)), bound or "-", format_object_age(row.found, now), ",".join(row.clusters) or "-"


LISTING: Listing[ClusterSetRow] = Listing(
    resource=MANAGED_CLUSTER_SETS,
    columns=COLUMNS,
    wide=("MEMBERS",),
    read=lambda client, request: ClusterSetAdmin(client).rows(request.selector),
    row=_row,
    document=lambda row: without_managed_fields(row.found),
)


@command.command("list")
@list_options()
@connection_options
def list_(connection: ClusterConnection, request: ListRequest) -> None:
    """List cluster sets: how many clusters are in each, and which namespaces may use it."""
    print_list(connection, LISTING, request)


@command.command("create")
@argument("names", nargs=-1, required=True, metavar="SET...")
@cluster_options(dry_run=True)
async def create(connection: ClusterConnection, names: tuple[str, ...], *, dry_run: bool) -> None:
    """Create empty cluster sets; one that exists stays as it is."""
    async with connection.client() as client:
        for name in names:
            changed = await ClusterSetAdmin(client, dry_run).create(name)
            _report(f"cluster set {name} {'created' if changed else 'exists already'}", dry_run=dry_run)


@command.command("delete")
@argument("names", nargs=-1, required=True, metavar="SET...")
@cluster_options(dry_run="Check that the sets can be deleted without deleting them.")
async def delete(connection: ClusterConnection, names: tuple[str, ...], *, dry_run: bool) -> None:
    """Delete cluster sets that have no clusters."""
    async with connection.client() as client:
        for name in names:
            await ClusterSetAdmin(client, dry_run).delete(name)
            _report(f"cluster set {name} deleted", dry_run=dry_run)


@command.command("add")
@argument("name", metavar="SET")
@CLUSTERS
@cluster_options(dry_run=True)
async def add(connection: ClusterConnection, name: str, clusters: tuple[str, ...], *, dry_run: bool) -> None:
    """Put clusters into a set, and so out of the set in which they are."""
    async with connection.client() as client:
        for cluster in split(clusters):
            changed = await ClusterSetAdmin(client, dry_run).add(name, cluster)
            _report(f"cluster {cluster} {f'added to {name}' if changed else f'is in {name} already'}", dry_run=dry_run)


@command.command("remove")
@argument("name", metavar="SET")
@CLUSTERS
@cluster_options(dry_run=True, asks=True)
async def remove(connection: ClusterConnection, name: str, clusters: tuple[str, ...], **flags: bool) -> None:
    """Take clusters out of a set; they go into the set `default`, and lose accounts of namespaces bound to this one."""
    _confirm(f"Remove {', '.join(split(clusters))} from {name}?", **flags)
    async with connection.client() as client:
        for cluster in split(clusters):
            await ClusterSetAdmin(client, flags["dry_run"]).remove(name, cluster)
            _report(f"cluster {cluster} removed from {name}", dry_run=flags["dry_run"])


@command.command("bind")
@argument("name", metavar="SET")
@NAMESPACE
@cluster_options(dry_run=True)
async def bind(connection: ClusterConnection, name: str, namespaces: tuple[str, ...], *, dry_run: bool) -> None:
    """Let a namespace use a cluster set: accounts in it are then on every cluster of the set."""
    async with connection.client() as client:
        for place in split(namespaces):
            changed = await ClusterSetAdmin(client, dry_run).bind(name, place)
            _report(f"{name} {f'bound to {place}' if changed else f'is bound to {place} already'}", dry_run=dry_run)


@command.command("unbind")
@argument("name", metavar="SET")
@NAMESPACE
@cluster_options(dry_run="Print what would be unbound without changing anything.", asks=True)
async def unbind(connection: ClusterConnection, name: str, namespaces: tuple[str, ...], **flags: bool) -> None:
    """End a binding: accounts of the namespace are removed from the clusters of the set."""
    _confirm(f"Unbind {name} from {', '.join(split(namespaces))}?", **flags)
    async with connection.client() as client:
        for place in split(namespaces):
            changed = await ClusterSetAdmin(client, flags["dry_run"]).unbind(name, place)
            _report(f"{name} {'unbound from' if changed else 'is not bound to'} {place}", dry_run=flags["dry_run"])


def _confirm(question: str, *, yes: bool, dry_run: bool) -> None:
    question = f"{question} Accounts that only this puts on clusters are revoked."
    confirm(question, "", yes=yes or dry_run, needs_terminal=False)


def _report(line: str, *, dry_run: bool) -> None:
    echo(line + (" (dry run)" if dry_run else ""))
