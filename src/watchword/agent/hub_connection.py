"""The agent's connection to the hub: first as a joining cluster, then as itself, without a restart between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from watchword.api.http import Request, Response
from watchword.kube.errors import CredentialReplaced, Unreachable
from watchword.kube.transport import Transport


class HubConnection:
    """A transport whose credential can be replaced while it is used.

    Requests that are under way end as they began; streams are cut, so that a watch resumes at once with the new
    credential instead of living on with one that may be withdrawn.
    """

    def __init__(self) -> None:
        self._current: Transport | None = None
        self.uses_own_credential = False  # whether everything is sent in the name of this very cluster
        self._streams: dict[asyncio.Timeout, None] = {}  # in the order in which they were opened
        self.unreachable = asyncio.Event()  # set when the hub could not be reached

    async def use(self, transport: Transport, *, own: bool = False) -> None:
        """Send everything through this transport from now on."""
        previous, self._current, self.uses_own_credential = self._current, transport, own
        for stream in self._streams:
            if not stream.expired():
                stream.reschedule(0)
        if previous is not None:
            await asyncio.sleep(0)  # the streams end first, so that they know why
            await previous.close()

    async def send(self, request: Request) -> Response:
        """Send one request and return the complete response."""
        transport = self._transport()
        try:
            return await transport.send(request)
        except Unreachable:
            self.unreachable.set()
            raise

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request; reading its stream raises `CredentialReplaced` once another is used."""
        try:
            async with asyncio.timeout(None) as limit:
                self._streams[limit] = None  # from the start: one that is being opened is cut, too
                try:
                    async with self._transport().stream(request) as response:
                        yield response
                finally:
                    self._streams.pop(limit, None)
        except TimeoutError as cause:
            if not limit.expired():
                raise
            raise CredentialReplaced("the credential was replaced", maybe_processed=False) from cause

    async def close(self) -> None:
        """Release the present transport."""
        if self._current is not None:
            await self._current.close()

    def _transport(self) -> Transport:
        if self._current is None:
            raise Unreachable("there is no credential for the hub yet", maybe_processed=False)
        return self._current


class OwnCredentialTransport:
    """Lets writes pass only in the name of this very cluster.

    A write may begin as this cluster and be tried again after its credential has ended: no controller decides about a
    joining cluster's request for an add-on, so the agent would wait for it in vain.
    """

    def __init__(self, connection: HubConnection) -> None:
        self._connection = connection

    async def send(self, request: Request) -> Response:
        """Send one request and return the complete response."""
        if request.method != "GET" and not self._connection.uses_own_credential:
            raise Unreachable("the cluster's own credential is not in use now", maybe_processed=False)
        return await self._connection.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request whose answer is read as it comes."""
        return self._connection.stream(request)

    async def close(self) -> None:
        """Do nothing: the session closes the connection."""
