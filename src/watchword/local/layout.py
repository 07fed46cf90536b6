"""Which control planes a fleet on this machine has, and where they listen: the same after every restart."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom

import msgspec
from msgspec import Struct

from watchword.admin.errors import OperationRefused
from watchword.registration.catalog import CATALOG

KIND, VERSION = "watchword-fleet", 1
DEFAULT_CLUSTERS = 2
LAST_PORT = 65535
PORT_RANGE = range(20_000, 30_000)
"""Below those that systems choose for connections, and below those of Kubernetes' own services."""

FreePort = Callable[[], int]


class ControlPlaneAddress(msgspec.Struct, frozen=True):
    """One control plane: its name, and the port it listens on."""

    name: str
    port: int


class FleetLayout(msgspec.Struct, frozen=True):
    """The content of the file in the data directory; it also marks the directory as ours."""

    hub: ControlPlaneAddress
    clusters: tuple[ControlPlaneAddress, ...]
    kind: str = KIND
    version: int = VERSION
    registration_auth: str = ""  # how the clusters register; empty: by the default driver
    server_port: int = 0  # of the server that this driver brings; 0: it brings none

    @property
    def addresses(self) -> tuple[ControlPlaneAddress, ...]:
        """Every control plane, the hub first."""
        return (self.hub, *self.clusters)


class LayoutRequest(Struct, frozen=True):
    """What the user requested; None: as before, or the default."""

    clusters: int | None = None
    port: int | None = None  # of the hub; the clusters follow it
    registration_auth: str = ""  # empty: as before, or the default
    needs_server_port: bool = False  # whether that driver brings a server


def read_layout(data: bytes) -> FleetLayout | None:
    """Return the layout, None when the file is not one; `OperationRefused` when a newer version wrote it."""
    try:
        found = msgspec.json.decode(data, type=FleetLayout)
    except msgspec.MsgspecError:
        return None
    if found.kind != KIND:
        return None
    if found.version > VERSION:
        raise OperationRefused(
            "the data directory was written by a newer version of watchword: use that one, or another folder"
        )
    return found


def reset_command(folder: Path) -> str:
    """Return the command that removes the fleet of this folder, and no other."""
    return shlex.join(["watchword", "reset", "--data-dir", str(folder)])


def choose_layout(
    recorded: FleetLayout | None, requested: LayoutRequest, free_port: FreePort, folder: Path
) -> FleetLayout:
    """Return the layout to start; recorded addresses stay, because credentials name them. Raise `OperationRefused`."""
    if recorded is None:
        count = DEFAULT_CLUSTERS if requested.clusters is None else requested.clusters
        hub = FleetLayout(_address("hub", 0, requested, free_port), (), registration_auth=requested.registration_auth)
        layout = add_clusters(hub, count, requested, free_port)
        return add_server_port(layout, free_port) if requested.needs_server_port else layout
    if requested.registration_auth and requested.registration_auth != (recorded.registration_auth or CATALOG.default):
        raise OperationRefused(
            f"the clusters of this fleet register otherwise: leave --registration-auth out, or begin anew with "
            f"`{reset_command(folder)}`"
        )
    if requested.port is not None and requested.port != recorded.hub.port:
        raise OperationRefused(
            f"this fleet's hub listens on port {recorded.hub.port}, and its clusters know it by that: leave --port "
            f"out, or begin anew with `{reset_command(folder)}`"
        )
    if requested.clusters is not None and requested.clusters < len(recorded.clusters):
        raise OperationRefused(
            f"this fleet has {len(recorded.clusters)} clusters: give --clusters {len(recorded.clusters)} or more, or "
            f"begin anew with `{reset_command(folder)}`"
        )
    return add_clusters(recorded, requested.clusters or 0, requested, free_port)


def add_clusters(layout: FleetLayout, count: int, requested: LayoutRequest, free_port: FreePort) -> FleetLayout:
    """Return the layout with at least that many clusters."""
    numbers = range(len(layout.clusters) + 1, count + 1)
    taken = {address.port for address in layout.addresses}  # the port is free just now
    others = (port for port in iter(free_port, None) if port not in taken)
    added = tuple(_address(f"cluster{number}", number, requested, others.__next__) for number in numbers)
    return replace_clusters(layout, (*layout.clusters, *added))


def add_server_port(layout: FleetLayout, free_port: FreePort) -> FleetLayout:
    """Return the layout with a port for the server of its driver."""
    taken = {address.port for address in layout.addresses}
    port = next(port for port in iter(free_port, None) if port not in taken)
    return msgspec.structs.replace(layout, server_port=port)


def replace_clusters(layout: FleetLayout, clusters: tuple[ControlPlaneAddress, ...]) -> FleetLayout:
    """Return the layout with other clusters."""
    return msgspec.structs.replace(layout, clusters=clusters)


def _address(name: str, offset: int, requested: LayoutRequest, free_port: FreePort) -> ControlPlaneAddress:
    if requested.port is None:
        return ControlPlaneAddress(name, free_port())
    if requested.port + offset > LAST_PORT:
        raise OperationRefused(f"there is no port {requested.port + offset} for {name}: give a smaller --port")
    return ControlPlaneAddress(name, requested.port + offset)


class FreePorts:
    """Finds free loopback ports, each once.

    The system never assigns these to outgoing connections: a free port stays free, also after a restart.
    """

    def __init__(self) -> None:
        start = SystemRandom().randrange(len(PORT_RANGE))  # fleets that start at once do not meet
        self._ahead = iter([*PORT_RANGE[start:], *PORT_RANGE[:start]])

    def __call__(self) -> int:
        """Return the next one; `OperationRefused` when there is none."""
        port: int | None = next(filter(_is_free, self._ahead), None)
        if port is None:
            first, last = PORT_RANGE[0], PORT_RANGE[-1]
            raise OperationRefused(f"no port between {first} and {last} is free: choose others with --port")
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
