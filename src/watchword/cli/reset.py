"""`watchword reset`: removes a fleet on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from watchword.cli.options import change_options, data_directory_option
from watchword.cli.output import confirm, echo

if TYPE_CHECKING:
    from watchword.local.data_directory import FleetDirectory


@click.command("reset")
@data_directory_option
@change_options("Print what would be removed without changing anything.", asks=True)
def command(folder: FleetDirectory, *, yes: bool, dry_run: bool) -> None:
    """Remove the fleet on this machine, with all its data.

    A folder that is not a fleet's is never touched, and neither is a fleet that runs.
    """
    from watchword.local.data_directory import remove_fleet

    if not folder.path.exists():
        echo(f"there is nothing in {folder.path}")
        return
    folder.require_ours()
    if dry_run:
        echo(f"would remove {folder.path}")
        return
    confirm(f"Remove everything in {folder.path}?", f"this removes everything in {folder.path}", yes=yes)
    remove_fleet(folder)
    echo(f"removed {folder.path}")
