"""How much a server accepts from its clients, and for how long it waits for them."""

import contextlib
import ipaddress
import resource
from collections.abc import Hashable
from typing import Generic, TypeVar

from msgspec import Struct

from watchword.api.limits import MAX_BODY_BYTES

T = TypeVar("T", bound=Hashable)
MOST_DESCRIPTORS = 65_536
FEWEST_CONNECTIONS = 16


class ConnectionTable(Generic[T]):
    """Makes room for new connections without closing those of authenticated users.

    A new connection replaces the oldest unauthenticated one of its own address, or of the address that
    holds the most. Only a user that holds more than half of all connections loses one of them.
    """

    def __init__(self, limit: int, per_address: int) -> None:
        self._limit = limit
        self._per_address = per_address
        self._group_of: dict[T, str] = {}
        self._unauthenticated: dict[str, dict[T, None]] = {}  # by network, the oldest first
        self._users: dict[str, dict[T, None]] = {}  # by name, the oldest first

    def __len__(self) -> int:
        return len(self._group_of)

    def connections(self) -> tuple[T, ...]:
        return tuple(self._group_of)

    def choose_victim(self, address: str) -> T | None:
        """Return the connection that must be closed before one of this address is added; None when there is room."""
        own = self._unauthenticated.get(network_of(address), {})
        if len(own) >= self._per_address:
            return next(iter(own))
        return self.choose_least_needed() if len(self) >= self._limit else None

    def choose_least_needed(self) -> T | None:
        """Return the oldest connection of the largest unauthenticated group, or of a user with over half of all."""
        groups = self._unauthenticated or {
            name: held for name, held in self._users.items() if len(held) > self._limit // 2
        }
        largest = max(groups.values(), key=len, default={})
        return next(iter(largest), None)

    def add(self, connection: T, address: str) -> bool:
        """Count an unauthenticated connection; False when there is no room."""
        if len(self) >= self._limit:
            return False
        self._put(self._unauthenticated, network_of(address), connection)
        return True

    def authenticate(self, connection: T, user: str) -> None:
        if connection in self._group_of and connection not in self._users.get(user, {}):
            self.discard(connection)
            self._put(self._users, user, connection)

    def is_authenticated(self, connection: T) -> bool:
        return connection in self._users.get(self._group_of.get(connection, ""), {})

    def discard(self, connection: T) -> None:
        name = self._group_of.pop(connection, None)
        if name is None:
            return
        for groups in (self._unauthenticated, self._users):
            held = groups.get(name, {})
            held.pop(connection, None)
            if not held:
                groups.pop(name, None)

    def _put(self, groups: dict[str, dict[T, None]], name: str, connection: T) -> None:
        self._group_of[connection] = name
        groups.setdefault(name, {})[connection] = None


def network_of(address: str) -> str:
    """Return what one client is counted by: its IPv4 address, or the /64 that an IPv6 host chooses addresses from."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


class ServerLimits(Struct, frozen=True):
    """Sizes and times of one listener."""

    connections: int = 4096  # fewer where the process may not open so many files
    header_bytes: int = 64 * 1024  # everything of a request that is not its body
    body_bytes: int = MAX_BODY_BYTES
    handshake_seconds: float = 10.0  # from the accepted connection to the end of the TLS handshake
    header_seconds: float = 15.0  # from the connection, or the first byte of a later request, to the end of its head
    request_seconds: float = 60.0  # from there to the end of the body
    write_seconds: float = 30.0  # how long a client may stop reading
    write_bytes_per_second: int = 4096  # slower than this a client counts as stopped
    keepalive_seconds: float = 180.0  # how long a connection may be idle between requests
    drain_seconds: float = 10.0  # how long current requests may take when the server stops


def choose_connection_limit(wanted: int, descriptors: int) -> int:
    """Return how many connections fit: a quarter of the descriptors stays for files and outgoing connections."""
    return min(wanted, max(FEWEST_CONNECTIONS, descriptors - descriptors // 4))


def choose_address_limit(connections: int) -> int:
    return min(connections, max(FEWEST_CONNECTIONS, connections // 4))


def descriptor_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Use as many descriptors as the administrator of the machine allows, as servers do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
