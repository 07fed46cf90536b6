"""Reuses idle connections per server and credential."""

from __future__ import annotations

import asyncio
import ssl

from watchword.kube.connection import ClientConnection
from watchword.kube.dial import ConnectionDialer
from watchword.kube.errors import Unreachable

IDLE_SECONDS = 60.0  # shorter than the API server's own idle timeout, so that it never closes first


class ConnectionPool:
    """Provides connections; every connection is returned to the pool, whatever happened to it."""

    def __init__(self, dialer: ConnectionDialer) -> None:
        self._dialer = dialer
        self._idle: list[
            tuple[float, ssl.SSLContext | None, ClientConnection]
        ] = []  # idle since, and of which credential; the oldest first
        self._in_use: dict[ClientConnection, ssl.SSLContext | None] = {}
        self._closed = False

    async def acquire(self, context: ssl.SSLContext | None) -> ClientConnection:
        """Return a usable connection; raises `NotConnected`, and `Unreachable` once the pool is closed."""
        if self._closed:
            raise Unreachable("the client is closed", maybe_processed=False)
        connection = self._find_idle(context) or await self._dialer.dial(context)
        self._in_use[connection] = context
        return connection

    def release(self, connection: ClientConnection) -> None:
        """Keep a connection for the next request; one with an unread response is closed."""
        context = self._in_use.pop(connection, None)
        if connection.is_reusable and not self._closed:
            self._idle.append((asyncio.get_running_loop().time(), context, connection))
        else:
            connection.abort()

    def close(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        for connection in (*self._in_use, *(connection for *_, connection in self._idle)):
            connection.abort()
        self._idle.clear()
        self._in_use.clear()

    def _find_idle(self, context: ssl.SSLContext | None) -> ClientConnection | None:
        self._drop_old()
        for place in range(len(self._idle) - 1, -1, -1):
            _, of, connection = self._idle[place]
            if of is context and connection.is_reusable:
                del self._idle[place]
                return connection
        return None

    def _drop_old(self) -> None:
        limit = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle and (self._idle[0][0] < limit or not self._idle[0][2].is_reusable):
            self._idle.pop(0)[2].abort()
