"""Many watchers in a process of its own, which reads with as few calls as it can: the server is what is measured."""

from __future__ import annotations

import selectors
import socket
import ssl
import sys
from pathlib import Path

from bench.planes.wire import written

END_OF_EVENT = b"}\n"  # a line break stands nowhere else after a brace


def main(port: int, folder: Path, path: str, watchers: int, changes: int) -> None:
    """Say `watching` once each watcher has its first event, and `done` once each has so many more."""
    context = ssl.create_default_context(cafile=folder / "bench-ca.pem")
    context.load_cert_chain(folder / "bench.pem")
    heard: dict[ssl.SSLSocket, int] = {}
    for _ in range(watchers):
        connection = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
        connection.sendall(written(("GET", path, "", b"")))
        connection.setblocking(False)
        heard[connection] = 0
    _receive(heard, 1)
    print("watching", flush=True)
    _receive(heard, 1 + changes)
    print("done", flush=True)


def _receive(heard: dict[ssl.SSLSocket, int], wanted: int) -> None:
    """Return once every watcher has so many events in all; an event may come in pieces."""
    ready = selectors.DefaultSelector()
    for connection in heard:
        ready.register(connection, selectors.EVENT_READ, connection)
    missing = len(heard)
    before = dict.fromkeys(heard, b"")
    while missing:
        for key, _ in ready.select():
            connection = key.data
            try:
                data = connection.recv(256 * 1024)
            except ssl.SSLWantReadError:
                continue
            had = heard[connection]
            heard[connection] += (before[connection] + data).count(END_OF_EVENT)
            before[connection] = data[-1:] if data.endswith(b"}") else b""
            missing -= had < wanted <= heard[connection]


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
