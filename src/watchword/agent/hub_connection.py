"""The agent's way to the hub: first as a joining cluster, then as itself, without a restart between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from watchword.api.http import Request, Response
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport


class HubConnection:
    """A transport whose credential can be replaced while it is used.

    Requests that are under way end as they began; streams are cut, so that a watch resumes at once with the new
    credential instead of living on with one that may be withdrawn.
    """

    def __init__(self) -> None:
        self._current: Transport | None = None
        self._replaced = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether there is any credential to use."""
        return self._current is not None

    async def use(self, transport: Transport) -> None:
        """Send everything through this transport from now on."""
        previous, self._current = self._current, transport
        self._replaced.set()
        self._replaced = asyncio.Event()
        if previous is not None:
            await previous.close()

    async def send(self, request: Request) -> Response:
        """Send one request and return the whole answer."""
        return await self._transport().send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request; its stream ends when the credential is replaced."""
        replaced = self._replaced
        async with self._transport().stream(request) as response:
            if response.stream is None:
                yield response
                return
            cut = _until(response.stream, replaced)
            yield Response(response.status, response.headers, response.body, cut)

    async def close(self) -> None:
        """Release the present transport."""
        if self._current is not None:
            await self._current.close()

    def _transport(self) -> Transport:
        if self._current is None:
            raise Unreachable("there is no credential for the hub yet", maybe_done=False)
        return self._current


async def _until(stream: AsyncIterator[bytes], stop: asyncio.Event) -> AsyncIterator[bytes]:
    stopping: asyncio.Task[Any] = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            following: asyncio.Future[bytes] = asyncio.ensure_future(anext(stream))
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                return
            try:
                yield following.result()
            except StopAsyncIteration:
                return
    finally:
        stopping.cancel()
