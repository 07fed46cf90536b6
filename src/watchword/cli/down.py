"""`watchword down`: asks a fleet that runs on this machine to stop."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from watchword.cli.fleet_options import folder_option

if TYPE_CHECKING:
    from watchword.fleet.local.folder import FleetFolder

PATIENCE = timedelta(seconds=15)


@click.command("down")
@folder_option
def command(folder: FleetFolder) -> None:
    """Stop the fleet that runs on this machine.

    Everything is kept, and the next `up` goes on from there. To remove it, run `watchword reset`.
    """
    from watchword.fleet.local.folder import stop_running  # noqa: PLC0415 - help must not pay for it

    stopped = stop_running(folder, PATIENCE)
    click.echo(f"stopped the fleet in {folder.path}" if stopped else f"no fleet runs in {folder.path}")
