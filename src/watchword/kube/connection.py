"""One connection to a server: sends a request and reads its response with backpressure."""

from __future__ import annotations

import asyncio
from typing import cast

from watchword.kube.response_parser import HttpProtocolError, ResponseParser

READ_AHEAD = 256 * 1024


class ConnectionLost(Exception):
    """The connection ended before the response began; the cause, if any is known, is its `__cause__`."""


class ResponseTruncated(Exception):
    """The connection ended in the middle of the response."""


class ClientConnection(asyncio.Protocol):
    """Carries one request at a time; the caller reads the response to its end or aborts the connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._response: ResponseParser | None = None
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False
        self.is_open = False

    async def send_request(self, request: bytes) -> ResponseParser:
        """Send a request and return its response as soon as the headers arrived; `chunk` returns the body."""
        if not self.is_open:
            raise ConnectionLost from self._error
        self._response = ResponseParser(has_body=not request.startswith(b"HEAD "))
        self.transport.write(request)
        while not self._response.has_head:
            self._raise_error(ConnectionLost)
            await self._wait_for_data()
        return self._response

    async def chunk(self) -> bytes:
        """Return the next chunk of the response's body, empty at its end."""
        response = self._response
        assert response is not None, "there is no response before a request"
        while not response.buffered:
            if response.is_complete:
                return b""
            self._raise_error(ResponseTruncated)
            await self._wait_for_data()
        if self._paused and self.is_open:
            self._paused = False
            self.transport.resume_reading()
        return response.take()

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent."""
        response = self._response
        return self.is_open and (
            response is None or (response.is_complete and response.keeps_alive and not response.buffered)
        )

    def abort(self) -> None:
        """Close the connection without a TLS shutdown, which may outlast a command's event loop."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def transport(self) -> asyncio.Transport:
        """The transport below."""
        assert self._transport is not None, "the connection is not connected"
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; called again when TLS starts on the connection."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        response = self._response
        try:
            if response is None:
                raise HttpProtocolError("the server sent data before a request was made")
            response.feed(data)
        except HttpProtocolError as trouble:
            self._end(trouble)
            self.abort()
            return
        if response.buffered > READ_AHEAD and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._notify()

    def eof_received(self) -> None:
        """Let the transport close after the server's end of stream."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the response that is under way."""
        self._end(exc)

    def _end(self, trouble: BaseException | None) -> None:
        self.is_open = False
        if self._error is None:
            self._error = trouble
        if self._response is not None:
            self._response.end()
        self._notify()

    def _raise_error(self, otherwise: type[Exception]) -> None:
        if isinstance(self._error, HttpProtocolError):
            raise self._error
        if not self.is_open:
            raise otherwise from self._error

    async def _wait_for_data(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
