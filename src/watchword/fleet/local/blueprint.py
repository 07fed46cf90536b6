"""Which control planes a fleet on this machine has, and where they listen: the same after every restart."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom

import msgspec

from watchword.fleet.errors import Refused

KIND, VERSION = "watchword-fleet", 1
DEFAULT_CLUSTERS = 2
LAST_PORT = 65535
QUIET_PORTS = range(20_000, 30_000)
"""Below those that systems choose for connections, and below those of Kubernetes' own services."""

FreePort = Callable[[], int]


class Place(msgspec.Struct, frozen=True):
    """One control plane: its name, and the port it listens on."""

    name: str
    port: int


class Blueprint(msgspec.Struct, frozen=True):
    """What the file in the data directory says; it also marks the directory as ours."""

    hub: Place
    clusters: tuple[Place, ...]
    kind: str = KIND
    version: int = VERSION

    @property
    def places(self) -> tuple[Place, ...]:
        """Every control plane, the hub first."""
        return (self.hub, *self.clusters)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person asked for; None: as it was, or as most like it."""

    clusters: int | None = None
    port: int | None = None  # of the hub; the clusters follow it


def read_blueprint(data: bytes) -> Blueprint | None:
    """Return the blueprint, None when the file is not one; `Refused` when a newer version wrote it."""
    try:
        found = msgspec.json.decode(data, type=Blueprint)
    except msgspec.MsgspecError:
        return None
    if found.kind != KIND:
        return None
    if found.version > VERSION:
        raise Refused("the data directory was written by a newer version of watchword: use that one, or another folder")
    return found


def choose_blueprint(recorded: Blueprint | None, wish: Wish, free_port: FreePort) -> Blueprint:
    """Return what to bring up; what is recorded stays, for credentials name its addresses. `Refused` otherwise."""
    if recorded is None:
        count = DEFAULT_CLUSTERS if wish.clusters is None else wish.clusters
        return grow(Blueprint(_place("hub", 0, wish, free_port), ()), count, wish, free_port)
    if wish.port is not None and wish.port != recorded.hub.port:
        raise Refused(
            f"this fleet's hub listens on port {recorded.hub.port}, and its clusters know it by that: leave --port "
            "out, or begin anew with `watchword reset`"
        )
    if wish.clusters is not None and wish.clusters < len(recorded.clusters):
        raise Refused(
            f"this fleet has {len(recorded.clusters)} clusters: give --clusters {len(recorded.clusters)} or more, or "
            "begin anew with `watchword reset`"
        )
    return grow(recorded, wish.clusters or 0, wish, free_port)


def grow(blueprint: Blueprint, count: int, wish: Wish, free_port: FreePort) -> Blueprint:
    """Return the blueprint with at least that many clusters."""
    numbers = range(len(blueprint.clusters) + 1, count + 1)
    taken = {place.port for place in blueprint.places}  # nobody listens there just now
    others = (port for port in iter(free_port, None) if port not in taken)
    added = tuple(_place(f"cluster{number}", number, wish, others.__next__) for number in numbers)
    return replace_clusters(blueprint, (*blueprint.clusters, *added))


def replace_clusters(blueprint: Blueprint, clusters: tuple[Place, ...]) -> Blueprint:
    """Return the blueprint with other clusters."""
    return msgspec.structs.replace(blueprint, clusters=clusters)


def _place(name: str, offset: int, wish: Wish, free_port: FreePort) -> Place:
    if wish.port is None:
        return Place(name, free_port())
    if wish.port + offset > LAST_PORT:
        raise Refused(f"there is no port {wish.port + offset} for {name}: give a smaller --port")
    return Place(name, wish.port + offset)


class FreePorts:
    """Finds loopback ports that nobody listens on, each once.

    The system never gives these to a connection that somebody opens: what is free now is free in a moment, too, and
    after a restart.
    """

    def __init__(self) -> None:
        start = SystemRandom().randrange(len(QUIET_PORTS))  # fleets that start at once do not meet
        self._ahead = iter([*QUIET_PORTS[start:], *QUIET_PORTS[:start]])

    def __call__(self) -> int:
        """Return the next one; `Refused` when there is none."""
        port: int | None = next(filter(_is_free, self._ahead), None)
        if port is None:
            first, last = QUIET_PORTS[0], QUIET_PORTS[-1]
            raise Refused(f"no port between {first} and {last} is free: choose others with --port")
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
