"""`watchword clean-clusters`: one round of deleting clusters that left."""

from __future__ import annotations

from datetime import timedelta

import click

from watchword.api.limits import LEFT_CLUSTER_RETENTION
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.discovery_options import parse_duration_flag
from watchword.cli.options import flag, option
from watchword.cli.output import echo
from watchword.registration.hub.cluster_cleanup import ClusterCleanup
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_loop import run


@click.command("clean-clusters")
@option("--retention", default=LEFT_CLUSTER_RETENTION, help="How long clusters that left are kept.")
@flag("--dry-run", help="Print what would be deleted without changing anything.")
@connection_options
def command(connection: ClusterConnection, retention: str, dry_run: bool) -> None:  # noqa: FBT001 - a flag
    """Delete clusters that left by `unjoin` and were not deleted.

    The hub announces each deletion on the cluster, in the condition CleanupScheduled and in an Event. A cluster that
    an administrator denied, that was accepted again, or that was never accepted is not touched. The hub's CronJob runs
    this command.
    """
    names = run(_clean(connection, parse_duration_flag(retention, "--retention"), dry_run=dry_run))
    for name in names:
        echo(f'managedcluster "{name}" deleted{" (dry run)" if dry_run else ""}')
    if not names:
        echo("nothing is left over")


async def _clean(connection: ClusterConnection, retention: timedelta, *, dry_run: bool) -> list[str]:
    async with connection.client() as client:
        return await ClusterCleanup(client, SystemClock(), retention, dry_run).run()
