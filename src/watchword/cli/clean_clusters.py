"""`watchword clean-clusters`: one round of deleting clusters that left."""

from datetime import timedelta

import click

from watchword.api.limits import LEFT_CLUSTER_RETENTION
from watchword.cli.connection_options import ClusterConnection, cluster_options
from watchword.cli.options import duration
from watchword.cli.output import echo
from watchword.registration.hub.cluster_removal import ClusterCleanup
from watchword.runtime.clock import SystemClock


@click.command("clean-clusters")
@duration("--retention", default=LEFT_CLUSTER_RETENTION, help="How long clusters that left are kept.")
@cluster_options(dry_run="Print what would be deleted without changing anything.")
async def command(connection: ClusterConnection, retention: timedelta, *, dry_run: bool) -> None:
    """Delete clusters that left by `unjoin` and were not deleted.

    The hub announces each deletion on the cluster, in the condition CleanupScheduled and in an Event. A cluster that
    an administrator denied, that was accepted again, or that was never accepted is not touched. The hub's CronJob runs
    this command.
    """
    async with connection.client() as client:
        names = await ClusterCleanup(client, SystemClock(), retention, dry_run).run()
    for name in names:
        echo(f'managedcluster "{name}" deleted{" (dry run)" if dry_run else ""}')
    if not names:
        echo("nothing is left over")
