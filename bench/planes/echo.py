"""A TLS server that sends every body back: what a POST costs before a control plane does anything for it."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import cast

from watchword.runtime.event_loop import run

LENGTH = b"Content-Length: "


class Echo(asyncio.Protocol):
    """One connection; it reads nothing of a request but its length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._received = b""

    def data_received(self, data: bytes) -> None:
        """Answer once the whole body is there."""
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        if len(body) == int(head.partition(LENGTH)[2].partition(b"\r\n")[0]):
            self._received = b""
            self._transport.write(b"HTTP/1.1 201 Created\r\n%b%d\r\n\r\n%b" % (LENGTH, len(body), body))


async def main(folder: Path) -> None:
    """Serve with the files `server.crt` and `server.key`; print the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run(main(Path(sys.argv[1])))
