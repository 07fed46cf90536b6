"""Opens the sockets that a server listens on, and accepts from them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket

BACKLOG = 1024
ACCEPTS_AT_ONCE = 64
"""So many connections are accepted before requests get their turn."""

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class OutOfDescriptors(Exception):
    """No connection can be accepted before another one is closed."""


async def bind_sockets(host: str, port: int) -> tuple[socket.socket, ...]:
    """Listen on every address of a host; raises `OSError`."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            opened.append(listening)
            _listen(listening, address)
    except OSError:
        for listening in opened:
            listening.close()
        raise
    return tuple(opened)


def _listen(listening: socket.socket, address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> None:
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listening.bind(address)
    except OSError as cause:
        raise OSError(cause.errno, f"cannot listen on {address[0]!s}:{address[1]!s}: {cause.strerror}") from None
    listening.listen(BACKLOG)


def accept_connections(listening: socket.socket) -> list[tuple[socket.socket, str]]:
    """Return connections that wait, with their addresses; raises `OutOfDescriptors` when none can be taken."""
    accepted: list[tuple[socket.socket, str]] = []
    while len(accepted) < ACCEPTS_AT_ONCE:
        try:
            connected, address = listening.accept()
        except (BlockingIOError, InterruptedError):
            break
        except ConnectionError:  # the client has gone already
            continue
        except OSError as cause:
            if accepted or cause.errno not in _OUT_OF_RESOURCES:
                break
            raise OutOfDescriptors from cause
        with contextlib.suppress(OSError):
            connected.setblocking(False)
        accepted.append((connected, str(address[0]) if address else ""))
    return accepted
