"""A client that costs almost nothing: raw HTTP over TLS on kept connections, so that servers are what is measured."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

Call = tuple[str, str, str, bytes]
"""Method, path, media type, body."""


@dataclass
class Connection:
    """One connection; one request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, port: int, context: ssl.SSLContext) -> Connection:
        """Connect to a server on loopback; the longest list is read without a pause."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=2**24))

    async def ask(self, call: Call) -> int:
        """Send one request, read its whole answer, return its size; anything but success raises."""
        self.send(call)
        status, length = await self.head()
        if length is None:
            return await self._chunks()
        body = await self.reader.readexactly(length)
        if status >= 300:
            raise RuntimeError(f"{call[0]} {call[1]}: {status} {body[:300]!r}")
        return length

    def send(self, call: Call) -> None:
        """Write one request."""
        self.writer.write(written(call))

    async def head(self) -> tuple[int, int | None]:
        """Read status and length; None: the answer comes in chunks."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        at = head.find(b"content-length:")
        if at < 0:
            return status, None
        return status, int(head[at + 15 : head.index(b"\r\n", at)])

    async def chunk(self) -> bytes:
        """Read one chunk of an answer."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def _chunks(self) -> int:
        total = 0
        while chunk := await self.chunk():
            total += len(chunk)
        return total

    def close(self) -> None:
        """Hang up."""
        self.writer.close()


def written(call: Call) -> bytes:
    """Return one request as it is sent."""
    method, path, media, body = call
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n"
    if body:
        head += f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


@dataclass
class Clients:
    """Several connections that share the work."""

    connections: Sequence[Connection]

    @classmethod
    async def open(cls, port: int, context: ssl.SSLContext, count: int) -> Clients:
        """Connect so many times."""
        return cls(await asyncio.gather(*(Connection.open(port, context) for _ in range(count))))

    async def send(self, calls: Sequence[Call]) -> None:
        """Send every call, each connection the next one as soon as it is free."""
        waiting = iter(calls)

        async def work(connection: Connection) -> None:
            for call in waiting:
                await connection.ask(call)

        await asyncio.gather(*map(work, self.connections))

    def close(self) -> None:
        """Hang up."""
        for connection in self.connections:
            connection.close()
