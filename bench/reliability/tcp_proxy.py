"""Stands between programs and a server on loopback: connections through it are reset, fall silent or are refused."""

from __future__ import annotations

import asyncio
import socket
import struct

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
CHUNK = 65536


class TcpProxy:
    """Passes bytes on; `open` and `close` let connections in and refuse them, at the same port each time."""

    def __init__(self, server_port: int) -> None:
        self.port = 0  # chosen when it is first opened
        self._server_port = server_port
        self._listener: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    async def open(self) -> None:
        """Accept connections."""
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Refuse connections, and reset those that there are."""
        if self._listener is not None:
            self._listener.close()
        self.reset()

    def reset(self) -> int:
        """Send a TCP RST over every connection; return how many there were."""
        ended = len(self._writers)
        for writer in self._writers:
            _reset(writer)
        self._writers.clear()
        return ended // 2  # each has two ends here

    def hold(self) -> None:
        """Keep every connection, and pass nothing on."""
        self._flows.clear()

    def release(self) -> None:
        """Pass on what was held."""
        self._flows.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            _reset(writer)
            return
        ends = {writer, far_writer}
        self._writers |= ends
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        self._writers -= ends

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK):
                await self._flows.wait()
                writer.write(chunk)
                await writer.drain()
        except OSError:
            _reset(writer)
        else:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    end = writer.get_extra_info("socket")
    if end is not None and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    writer.transport.abort()
