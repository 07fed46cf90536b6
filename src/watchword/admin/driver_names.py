"""The names of drivers on the command line, in every spelling in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from watchword.admin.errors import InvalidInput
from watchword.drivers.catalog import find_addon_driver, find_cluster_driver
from watchword.drivers.errors import UnknownDriver
from watchword.drivers.interface import DriverEntry

PLANNED_DRIVERS = frozenset({"aws-irsa", "awsirsa", "grpc", "token"})
"""Names that manuals know; those the catalog does not hold are not in this version."""


def choose_registration_drivers(names: Iterable[str]) -> tuple[str, ...]:
    """Return the catalog's names of the drivers by which clusters register, each once."""
    return tuple(dict.fromkeys(_known(name, find_cluster_driver) for name in names)) or ("csr",)


def choose_addon_driver(name: str) -> str:
    """Return the catalog's name of the driver by which add-ons register; empty for the default."""
    return _known(name, find_addon_driver) if name else ""


def _known(name: str, find: Callable[[str], DriverEntry]) -> str:
    try:
        return find(name).name
    except UnknownDriver as unknown:
        if name in PLANNED_DRIVERS:
            raise InvalidInput(f"{name} is not yet in this version: {unknown}") from unknown
        raise
