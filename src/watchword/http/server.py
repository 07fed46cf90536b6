"""Serves a function from requests to responses on a socket."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass

from watchword.http.connection import RejectionHandler, RequestHandler, ServerConnection, plain_text_rejection
from watchword.http.request_parser import RequestLimits

SWEEP_EVERY = 5.0
"""How often connections are checked for timeouts; one timer serves all of them."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a listening socket."""

    connections: int = 4096
    header_bytes: int = 64 * 1024
    body_bytes: int = 3 * 1024 * 1024
    keepalive_seconds: float = 180.0  # how long a connection may be idle between requests
    request_seconds: float = 60.0  # how long a client may take to send one request
    drain_seconds: float = 10.0  # how long current requests may take when the server stops


class HttpServer:
    """Accepts connections, passes requests to a function, and writes its responses."""

    def __init__(
        self,
        handle: RequestHandler,
        limits: ServerLimits | None = None,
        *,
        context: ssl.SSLContext | None = None,
        reject: RejectionHandler = plain_text_rejection,
    ) -> None:
        self.handle = handle
        self.reject = reject
        self._context = context
        self._limits = limits or ServerLimits()
        self.reading = RequestLimits(self._limits.header_bytes, self._limits.body_bytes)
        self._connections: set[ServerConnection] = set()
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._all_closed = asyncio.Event()
        self._pause = min(SWEEP_EVERY, self._limits.keepalive_seconds, self._limits.request_seconds)
        self._date = (0, "")

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system chooses when 0 was requested."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ServerConnection(self), host, port, ssl=self._context, backlog=1024, reuse_address=True
        )
        self._sweep = loop.call_later(self._pause, self._close_idle)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop accepting, end watches cleanly, and let current requests finish."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in tuple(self._connections):
            connection.finish()
        await self._empty(self._limits.drain_seconds)
        for connection in tuple(self._connections):
            connection.abort()
        await self._empty(self._limits.drain_seconds)
        await server.wait_closed()

    def register(self, connection: ServerConnection) -> bool:
        """Register a connection; False when there are too many."""
        if len(self._connections) >= self._limits.connections or self._server is None:
            return False
        self._connections.add(connection)
        return True

    def unregister(self, connection: ServerConnection) -> None:
        """Unregister a connection."""
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def date(self) -> str:
        """Return the current time in HTTP's format, computed once a second."""
        now = int(time.time())
        if now != self._date[0]:
            self._date = now, http_date(now)
        return self._date[1]

    async def _empty(self, patience: float) -> None:
        if not self._connections:
            return
        self._all_closed.clear()
        try:
            async with asyncio.timeout(patience):
                await self._all_closed.wait()
        except TimeoutError:
            return

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._connections):
            if connection.is_timed_out(now, self._limits.keepalive_seconds, self._limits.request_seconds):
                connection.abort()
        self._sweep = loop.call_later(self._pause, self._close_idle)


def http_date(seconds: float) -> str:
    """Return an instant in the format of HTTP headers, independent of the locale."""
    at = time.gmtime(seconds)
    return (
        f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year} "
        f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
    )


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
