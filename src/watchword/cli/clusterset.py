"""`watchword clusterset`: the cluster sets of a hub, the clusters in them, and the namespaces that use them."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

import click

from watchword.admin.cluster_sets import ClusterSetAdmin, ClusterSetRow
from watchword.api.resources import MANAGED_CLUSTER_SETS
from watchword.cli.clusters import format_object_age
from watchword.cli.common_options import change_options, confirm, split, without_managed_fields
from watchword.cli.connection_options import ClusterConnection, complete_clusters, connection_options
from watchword.cli.lists import Listing, ListRequest, list_options, print_list
from watchword.cli.output import echo
from watchword.kube.client import Client

COLUMNS = ("NAME", "CLUSTERS", "BOUND TO", "AGE")
NAMESPACE = click.option(
    "--namespace", "-n", "namespaces", required=True, multiple=True, help="Namespaces on the hub, separated by commas."
)
CLUSTERS = click.argument("clusters", nargs=-1, required=True, metavar="CLUSTER...", shell_complete=complete_clusters)


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
@click.argument("names", nargs=-1, required=True, metavar="SET...")
@change_options()
@connection_options
def create(connection: ClusterConnection, names: tuple[str, ...], *, dry_run: bool) -> None:
    """Create empty cluster sets; one that exists stays as it is."""
    said = ("cluster set {} created", "cluster set {} exists already")
    _change(connection, lambda admin, name: admin.create(name), names, said, dry_run=dry_run)


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="SET...")
@change_options("Check that the sets can be deleted without deleting them.")
@connection_options
def delete(connection: ClusterConnection, names: tuple[str, ...], *, dry_run: bool) -> None:
    """Delete cluster sets that have no clusters."""

    async def one(admin: ClusterSetAdmin, name: str) -> bool:
        await admin.delete(name)
        return True

    _change(connection, one, names, ("cluster set {} deleted", ""), dry_run=dry_run)


@command.command("add")
@click.argument("name", metavar="SET")
@CLUSTERS
@change_options()
@connection_options
def add(connection: ClusterConnection, name: str, clusters: tuple[str, ...], *, dry_run: bool) -> None:
    """Put clusters into a set, and so out of the set in which they are."""
    said = (f"cluster {{}} added to {name}", f"cluster {{}} is in {name} already")
    _change(connection, lambda admin, cluster: admin.add(name, cluster), split(clusters), said, dry_run=dry_run)


@command.command("remove")
@click.argument("name", metavar="SET")
@CLUSTERS
@change_options(asks=True)
@connection_options
def remove(connection: ClusterConnection, name: str, clusters: tuple[str, ...], *, dry_run: bool, yes: bool) -> None:
    """Take clusters out of a set; they go into the set `default`, and lose accounts of namespaces bound to this one."""
    _confirm(f"Remove {', '.join(split(clusters))} from {name}?", yes=yes or dry_run)
    said = (f"cluster {{}} removed from {name}", "")
    _change(connection, lambda admin, cluster: admin.remove(name, cluster), split(clusters), said, dry_run=dry_run)


@command.command("bind")
@click.argument("name", metavar="SET")
@NAMESPACE
@change_options()
@connection_options
def bind(connection: ClusterConnection, name: str, namespaces: tuple[str, ...], *, dry_run: bool) -> None:
    """Let a namespace use a cluster set: accounts in it are then on every cluster of the set."""
    said = (f"{name} bound to {{}}", f"{name} is bound to {{}} already")
    _change(connection, lambda admin, place: admin.bind(name, place), split(namespaces), said, dry_run=dry_run)


@command.command("unbind")
@click.argument("name", metavar="SET")
@NAMESPACE
@change_options("Print what would be unbound without changing anything.", asks=True)
@connection_options
def unbind(connection: ClusterConnection, name: str, namespaces: tuple[str, ...], *, dry_run: bool, yes: bool) -> None:
    """End a binding: accounts of the namespace are removed from the clusters of the set."""
    _confirm(f"Unbind {name} from {', '.join(split(namespaces))}?", yes=yes or dry_run)
    said = (f"{name} unbound from {{}}", f"{name} is not bound to {{}}")
    _change(connection, lambda admin, place: admin.unbind(name, place), split(namespaces), said, dry_run=dry_run)


def _confirm(question: str, *, yes: bool) -> None:
    question = f"{question} Accounts that only this puts on clusters are revoked."
    confirm(question, "", yes=yes, needs_terminal=False)


def _change(
    connection: ClusterConnection,
    act: Callable[[ClusterSetAdmin, str], Awaitable[bool]],
    names: Iterable[str],
    said: tuple[str, str],
    *,
    dry_run: bool,
) -> None:
    """Do the same to each name, and print for each whether it was news."""

    async def work(client: Client) -> None:
        admin = ClusterSetAdmin(client, dry_run)
        for name in names:
            news = await act(admin, name)
            echo(said[0 if news else 1].format(name) + (" (dry run)" if dry_run else ""))

    connection.run(work)
