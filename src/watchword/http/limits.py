"""How much a server accepts from its clients, and for how long it waits for them."""

from __future__ import annotations

import contextlib
import resource

from msgspec import Struct

MOST_DESCRIPTORS = 65_536
FEWEST_CONNECTIONS = 16


class ServerLimits(Struct, frozen=True):
    """Sizes and times of one listener."""

    connections: int = 4096  # fewer where the process may not open so many files
    header_bytes: int = 64 * 1024  # everything of a request that is not its body
    body_bytes: int = 3 * 1024 * 1024
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
    """Return how many connections one address may hold before it authenticates."""
    return min(connections, max(FEWEST_CONNECTIONS, connections // 4))


def descriptor_limit() -> int:
    """Return how many files this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Use as many descriptors as the administrator of the machine allows, as servers do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
