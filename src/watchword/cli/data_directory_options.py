"""`--data-dir`, the same for every verb about a fleet on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from watchword.local.data_directory import FleetDirectory

F = TypeVar("F", bound=Callable[..., Any])


def data_directory_option(command: F) -> F:
    """Add the option; the command gets `folder`, a `FleetDirectory`."""

    @click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where the fleet is kept.")
    @wraps(command)
    def with_folder(*args: Any, data_dir: Path | None, **kwargs: Any) -> Any:
        return command(*args, folder=fleet_directory_of(data_dir), **kwargs)

    return with_folder  # type: ignore[return-value]  # a command stays a command


def fleet_directory_of(data_dir: Path | None) -> FleetDirectory:
    """Return the folder that is meant, the user's own by default."""
    from watchword.local.data_directory import FleetDirectory, default_data_directory

    return FleetDirectory((data_dir or default_data_directory()).absolute())
