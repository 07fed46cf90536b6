"""`watchword clean-clusters`: one round of deleting clusters that left."""

from __future__ import annotations

from datetime import timedelta

import click

from watchword.cli.connection_options import ClusterConnection, connection_options


@click.command("clean-clusters")
@click.option("--minutes", type=click.IntRange(0), default=10, show_default=True, help="How long ago they left.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and change nothing.")
@connection_options
def command(connection: ClusterConnection, minutes: int, dry_run: bool) -> None:  # noqa: FBT001 - a flag
    """Delete clusters that left and were not deleted.

    A cluster has left when it gave its acceptance back, or was denied, and was not accepted again. The hub's
    CronJob runs this; clusters that still wait for their first acceptance are not touched.
    """
    from watchword.runtime.event_loop import run

    names = run(_clean(connection, timedelta(minutes=minutes), dry_run=dry_run))
    for name in names:
        click.echo(f'managedcluster "{name}" deleted{" (dry run)" if dry_run else ""}')
    if not names:
        click.echo("nothing is left over")


async def _clean(connection: ClusterConnection, patience: timedelta, *, dry_run: bool) -> list[str]:
    from watchword.hub.cluster_cleanup import ClusterCleanup
    from watchword.runtime.clock import SystemClock

    async with connection.client() as client:
        return await ClusterCleanup(client, SystemClock(), patience, dry_run).run()
