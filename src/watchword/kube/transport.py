"""The interface below the client: how a request reaches an API server."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from watchword.api.http import Request, Response


class Transport(Protocol):
    """Sends requests to one API server as one identity.

    Raises `Unreachable` when there was no response; any response, whatever its code, is returned.
    """

    async def send(self, request: Request) -> Response:
        """Send one request and return the complete response."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request; inside the context `Response.stream` yields the body in chunks."""
        ...

    async def close(self) -> None:
        """Close all connections; the transport cannot be used afterwards."""
        ...
