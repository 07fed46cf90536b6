"""Passes connections on to a server until the test breaks them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

PIECE = 2**16


@dataclass
class ConnectionBreaker:
    """Listens on a port of its own; while it is broken, connections end at once."""

    target: int
    port: int = 0
    broken: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        if self.broken:
            writer.close()
            return
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, to_server}
        await asyncio.gather(self._pass_on(reader, to_server), self._pass_on(from_server, writer))
        self._writers -= {writer, to_server}

    def break_connections(self) -> None:
        """End every connection, and refuse new ones."""
        self.broken = True
        for writer in self._writers:
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(PIECE):
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        writer.close()


@asynccontextmanager
async def breakable(port: int) -> AsyncIterator[ConnectionBreaker]:
    """Listen before a server on loopback."""
    breaker = ConnectionBreaker(port)
    server = await asyncio.start_server(breaker.accept, "127.0.0.1", 0)
    breaker.port = server.sockets[0].getsockname()[1]
    try:
        yield breaker
    finally:
        breaker.break_connections()
        server.close()
        await server.wait_closed()
