"""Transports that handle writes: refused without leadership, visible in the cache, conflicts counted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta

import orjson

from watchword.api.http import Request, Response
from watchword.kube.transport import Transport
from watchword.runtime.clock import Clock
from watchword.runtime.errors import NotLeading

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
CONFLICT = 409
FIELD_CONFLICT = "FieldManagerConflict"
_MANAGER = re.compile(r'conflict with "([^"]{1,128})"')


class Fence:
    """Decides until when this process may write.

    Both clocks must agree: the loop's time stops while a machine is suspended, the wall clock may be set back.
    """

    def __init__(self, clock: Clock, *, is_open: bool) -> None:
        self._clock = clock
        self._always = is_open
        self._until = 0.0
        self._wall_until: datetime | None = None
        self._writing: dict[asyncio.Timeout, None] = {}  # in the order in which they began

    def extend(self, seconds: float, *, since: float, wall_since: datetime) -> None:
        """Allow writes for so long after an instant, given by both clocks."""
        self._until = since + seconds
        self._wall_until = wall_since + timedelta(seconds=seconds)
        self._reschedule(self._until)

    def close(self) -> None:
        """Allow no writes from now on, and cancel those in flight."""
        self._always, self._until, self._wall_until = False, 0.0, None
        self._reschedule(0.0)

    @property
    def is_open(self) -> bool:
        """Whether writes are allowed at this instant."""
        if self._always:
            return True
        if self._wall_until is None or self._clock.now() >= self._wall_until:
            return False
        return asyncio.get_running_loop().time() < self._until

    @property
    def until(self) -> float:
        """The loop's time after which writes are no longer allowed."""
        return self._until

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Run a write; raises `NotLeading` before it, or while it runs when leadership ends."""
        if not self.is_open:
            raise NotLeading("this process does not hold the lease, so it must not write")
        try:
            async with asyncio.timeout_at(None if self._always else self._until) as timeout:
                self._writing[timeout] = None
                try:
                    yield
                finally:
                    self._writing.pop(timeout, None)
        except TimeoutError as cause:
            if not timeout.expired():
                raise
            raise NotLeading("leadership ended while a write was in flight") from cause

    def _reschedule(self, until: float) -> None:
        for timeout in self._writing:
            if not timeout.expired():
                timeout.reschedule(until)


class FencedTransport:
    """Lets reads pass, and writes only while the fence is open."""

    def __init__(self, inner: Transport, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence

    async def send(self, request: Request) -> Response:
        """Send one request; raises `NotLeading` for a write that is not allowed."""
        if request.method in _READS:
            return await self._inner.send(request)
        async with self._fence.guard():
            return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Open a stream; only reads are streamed."""
        if request.method not in _READS:
            raise NotLeading("a write cannot be streamed through the fence")
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


class WriteThroughTransport:
    """Passes the response of every write to the cache, so that no reader here sees the replaced version."""

    def __init__(self, inner: Transport, observe_write: Callable[[bytes], None]) -> None:
        self._inner = inner
        self._observe_write = observe_write

    async def send(self, request: Request) -> Response:
        """Send one request and store its result in the cache."""
        response = await self._inner.send(request)
        if request.method in ("POST", "PUT", "PATCH") and response.status < 300 and not request.parameter("dryRun"):
            self._observe_write(response.body)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Open a stream, unchanged."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


class ConflictCountingTransport:
    """Counts the field managers with which an apply conflicts, so that competing writers become visible."""

    def __init__(self, inner: Transport, count: Callable[[str], None]) -> None:
        self._inner = inner
        self._count = count

    async def send(self, request: Request) -> Response:
        """Send one request and evaluate a conflict."""
        response = await self._inner.send(request)
        if response.status == CONFLICT:
            for manager in conflicting_managers(response.body):
                self._count(manager)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Open a stream, unchanged."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


def conflicting_managers(body: bytes) -> list[str]:
    """Return the managers that the server names in its refusal of an apply, each once."""
    try:
        causes = (orjson.loads(body).get("details") or {}).get("causes") or []
        messages = [str(cause.get("message")) for cause in causes if cause.get("reason") == FIELD_CONFLICT]
    except (AttributeError, TypeError, ValueError):
        return []  # not a Status: the sender of the request reports it
    named = [match[1] for message in messages if (match := _MANAGER.match(message))]
    return list(dict.fromkeys(named))
