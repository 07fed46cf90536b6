"""The seam below the client: how a request reaches an API server."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from watchword.api.http import Request, Response


class Transport(Protocol):
    """Carries requests to one API server as one identity.

    Raises `Unreachable` when no answer came; any answer, of whatever code, is returned.
    """

    async def send(self, request: Request) -> Response:
        """Send one request and return the whole answer."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request; inside the context `Response.stream` yields the body in chunks."""
        ...

    async def close(self) -> None:
        """Release connections; afterwards the transport is of no use."""
        ...
