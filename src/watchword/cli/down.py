"""`watchword down`: stops a fleet that runs on this machine."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from watchword.cli.options import data_directory_option
from watchword.cli.output import echo

if TYPE_CHECKING:
    from watchword.local.data_directory import FleetDirectory

PATIENCE = timedelta(seconds=15)


@click.command("down")
@data_directory_option
def command(folder: FleetDirectory) -> None:
    """Stop the fleet that runs on this machine.

    All data is kept, and the next `up` continues with it. To remove it, run `watchword reset`.
    """
    from watchword.local.data_directory import stop_running_fleet

    stopped = stop_running_fleet(folder, PATIENCE)
    echo(f"stopped the fleet in {folder.path}" if stopped else f"no fleet runs in {folder.path}")
