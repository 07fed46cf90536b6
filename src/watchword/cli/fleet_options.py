"""`--data-dir`, the same for every verb about a fleet on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from watchword.fleet.local.folder import FleetFolder

F = TypeVar("F", bound=Callable[..., Any])


def folder_option(command: F) -> F:
    """Add the option; the command gets `folder`, a `FleetFolder`."""

    @click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where the fleet is kept.")
    @wraps(command)
    def with_folder(*args: Any, data_dir: Path | None, **kwargs: Any) -> Any:
        return command(*args, folder=folder_of(data_dir), **kwargs)

    return with_folder  # type: ignore[return-value]  # a command stays a command


def folder_of(data_dir: Path | None) -> FleetFolder:
    """Return the folder that is meant, the user's own by default."""
    from watchword.fleet.local.folder import FleetFolder, default_folder  # noqa: PLC0415 - help must not pay for it

    return FleetFolder((data_dir or default_folder()).absolute())
