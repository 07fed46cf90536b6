"""`watchword clean-clusters`: one round of deleting clusters that left."""

import click

from watchword.api.limits import LEFT_CLUSTER_RETENTION
from watchword.cli.common_options import change_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import parse_duration_flag
from watchword.cli.options import option
from watchword.cli.output import echo
from watchword.registration.hub.cluster_removal import ClusterCleanup
from watchword.runtime.clock import SystemClock


@click.command("clean-clusters")
@option("--retention", default=LEFT_CLUSTER_RETENTION, help="How long clusters that left are kept.")
@change_options("Print what would be deleted without changing anything.")
@connection_options
def command(connection: ClusterConnection, retention: str, dry_run: bool) -> None:  # noqa: FBT001 - a flag
    """Delete clusters that left by `unjoin` and were not deleted.

    The hub announces each deletion on the cluster, in the condition CleanupScheduled and in an Event. A cluster that
    an administrator denied, that was accepted again, or that was never accepted is not touched. The hub's CronJob runs
    this command.
    """
    kept = parse_duration_flag(retention, "--retention")
    names = connection.run(lambda client: ClusterCleanup(client, SystemClock(), kept, dry_run).run())
    for name in names:
        echo(f'managedcluster "{name}" deleted{" (dry run)" if dry_run else ""}')
    if not names:
        echo("nothing is left over")
