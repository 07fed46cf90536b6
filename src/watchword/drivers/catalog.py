"""Every driver there is: a newcomer adds a folder and one line here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.drivers.csr.agent import CsrAgentDriver
from watchword.drivers.csr.hub import CsrHubDriver
from watchword.drivers.errors import UnknownDriver
from watchword.drivers.interface import DriverEntry
from watchword.drivers.token.agent import TokenAgentDriver

DriverCatalog: TypeAlias = Sequence[DriverEntry]
"""The drivers that a process knows."""

CATALOG: DriverCatalog = (
    DriverEntry("csr", agent=CsrAgentDriver.make, hub=CsrHubDriver.make, for_addons=True, signer=KUBE_CLIENT_SIGNER),
    DriverEntry("token", agent=TokenAgentDriver.make, for_addons=True),
)


def find_cluster_driver(name: str, catalog: DriverCatalog = CATALOG) -> DriverEntry:
    """Return the driver by which clusters register under that name, `csr` when none is given."""
    return _find(name, [entry for entry in catalog if entry.hub is not None], "clusters register")


def find_addon_driver(name: str, catalog: DriverCatalog = CATALOG) -> DriverEntry:
    """Return the driver by which add-ons get their credential, `csr` when none is given."""
    return _find(name, [entry for entry in catalog if entry.for_addons], "add-ons register")


def _find(name: str, entries: list[DriverEntry], purpose: str) -> DriverEntry:
    wanted = name or "csr"
    for entry in entries:
        if wanted in (entry.name, *entry.aliases):
            return entry
    known = ", ".join(sorted(entry.name for entry in entries))
    raise UnknownDriver(f"there is no driver {wanted!r} by which {purpose}: choose one of {known}")
