"""Turns an accepted socket into a connection, within a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable


class Handshake:
    """Hands a socket to a protocol once TLS is established; `failed` is called when that does not come about."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext | None, patience: float) -> None:
        self._connected = connected
        self._context = context
        self._patience = patience if context is not None else None
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False

    def begin(self, protocol: asyncio.Protocol, failed: Callable[[], None]) -> None:
        """Begin, and go on in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._run(protocol, failed))

    def cancel(self) -> None:
        """Close the socket, whatever the state of the handshake."""
        if self._has_begun and self._task is not None:
            self._task.cancel()
        else:
            self._connected.close()  # the task has not had its first step

    async def _run(self, protocol: asyncio.Protocol, failed: Callable[[], None]) -> None:
        if self._connected.fileno() < 0:
            return
        self._has_begun = True
        established = False
        # OSError: the client has gone, was too slow, or does not speak TLS.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, self._connected, ssl=self._context, ssl_handshake_timeout=self._patience
            )
            established = True
        if not established:
            failed()
