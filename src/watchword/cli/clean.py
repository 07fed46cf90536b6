"""`watchword clean`: removes the hub from the cluster of a kubeconfig."""

import click

from watchword.admin.apply import names_of
from watchword.admin.hub_removal import HubRemover
from watchword.cli.administrator_events import HUB, administrator_events
from watchword.cli.connection_options import ClusterConnection, cluster_options
from watchword.cli.options import flag
from watchword.cli.output import confirm, echo, print_progress
from watchword.health.formatting import format_count


@click.command("clean")
@flag("--delete-kinds", help="Also delete the CustomResourceDefinitions.")
@flag("--force", help="Remove the hub although clusters are registered; their agents are not removed.")
@cluster_options(dry_run="Print what would be removed without changing anything.", asks=True)
async def command(connection: ClusterConnection, *, delete_kinds: bool, force: bool, dry_run: bool, yes: bool) -> None:
    """Remove the hub from this cluster.

    Removes everything that `init` and the hub made: controllers, operator, clusters and their namespaces, rights,
    policies, join tokens and what is published. It is listed first, and confirmed. `watchword backup --hub` saves it.
    """
    async with connection.client() as client:
        remover = HubRemover(client, print_progress, delete_kinds)
        removal = await remover.plan(force=force)
        if not removal.rows:
            echo("there is no hub on this cluster")
            return
        for name in names_of(removal.rows):
            echo(f"remove {name}")
        for reason in removal.kept:
            echo(f"keep {reason}")
        if dry_run:
            return
        count = format_count(len(removal.rows), "object")
        confirm(f"Remove {count}?", f"this removes {count}", yes=yes)
        async with administrator_events(client, "clean") as (events, administrator):
            await remover.carry_out(removal)
            events.normal(HUB, "HubRemoved", f"{administrator} removed the hub: {count}")
    echo(f"removed {count}; this cluster is not a hub any more")
