"""The way from one simulated process to one API server: where requests are noted, lost, held up and cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace
from tests.helpers.fault_injection import FaultPlan, FaultyTransport
from tests.simulation.history import History

from watchword.api.http import Request, Response
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport

READS = frozenset({"GET", "HEAD", "OPTIONS"})
REVIEWS = "reviews"  # POSTs that ask and change nothing
CALM = FaultPlan()
THROTTLE_DELAY = 20.0  # seconds for each write of a program that never pauses, or its run would never end


@dataclass
class ProcessRun:
    """One run of a process, from its start until it is killed; nothing that it does afterwards has an effect."""

    actor: str
    die: Callable[[], None]
    crash_after: int | None = None  # writes that still succeed before the process is gone
    dead: bool = False
    writes: int = 0

    async def wrote(self) -> None:
        """Count a write that has reached the server; never returns when it was the last one."""
        self.writes += 1
        if self.crash_after is None:
            return
        self.crash_after -= 1
        if self.crash_after <= 0:
            self.crash_after = None
            self.dead = True
            asyncio.get_running_loop().call_soon(self.die)
            await asyncio.Event().wait()


class Breakable(Protocol):
    """What breaks with a road."""

    def expired(self) -> bool: ...

    def reschedule(self, when: float | None, /) -> None: ...


@dataclass
class Link:
    """The road between a process and a server: it outlives both, and faults happen to it, also several at once."""

    name: str
    random: Random
    plans: list[FaultPlan] = field(default_factory=lambda: [CALM])  # the last one is the weather now
    on_request: Callable[[], None] = lambda: None  # called for each request that leaves
    cuts: int = 0
    holds: int = 0  # while there is one, no event of a watch comes through
    streams: dict[Breakable, None] = field(default_factory=dict)  # in the order in which they were opened
    _free: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def plan(self) -> FaultPlan:
        """The weather now."""
        return self.plans[-1]

    def sever(self) -> None:
        """Cut the road: nothing passes and everything under way breaks."""
        self.cuts += 1
        self.hang_up()

    def mend(self) -> None:
        """Repair one cut."""
        self.cuts -= 1

    def hang_up(self) -> None:
        """Break every stream; new ones may be opened."""
        for stream in tuple(self.streams):
            if not stream.expired():
                stream.reschedule(0)

    def hold(self) -> None:
        """Let the watches fall silent while requests are answered: caches go stale."""
        self.holds += 1
        self._free.clear()

    def release(self, *, lose: bool) -> None:
        """Let the events come, late; or lose them with their connections."""
        self.holds -= 1
        if not self.holds:
            self._free.set()
        if lose:
            self.hang_up()

    async def until_free(self) -> None:
        """Wait while events are held."""
        while self.holds:
            await self._free.wait()


@dataclass
class SimulatedTransport:
    """A transport of one run over one road."""

    inner: Transport
    link: Link
    run: ProcessRun
    history: History
    _faulty: FaultyTransport = field(init=False)

    def __post_init__(self) -> None:
        noted = _RecordingTransport(self.inner, self.run, self.history)
        self._faulty = FaultyTransport(noted, self.link.plan, self.link.random)

    async def send(self, request: Request) -> Response:
        """Send one request, if the network is up and the process runs."""
        self._require_way()
        self._faulty.plan = self.link.plan
        return await self._faulty.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Open a stream that breaks with the road."""
        self._require_way()
        self._faulty.plan = self.link.plan
        try:
            async with asyncio.timeout(None) as limit, self._faulty.stream(request) as response:
                self.link.streams[limit] = None
                try:
                    if response.stream is None:
                        yield response
                        return
                    async with aclosing(self._timely(response.stream)) as chunks:
                        yield replace(response, stream=chunks)
                finally:
                    self.link.streams.pop(limit, None)
        except TimeoutError as cause:
            if not limit.expired():
                raise
            raise Unreachable("the connection broke", maybe_processed=False) from cause

    async def close(self) -> None:
        """Close what is below."""
        await self.inner.close()

    async def _timely(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            await self.link.until_free()
            self._faulty.plan = self.link.plan
            yield chunk

    def _require_way(self) -> None:
        self.history.requested(self.run.actor)
        if self.run.dead:
            raise Unreachable("the process was killed", maybe_processed=False)
        if self.link.cuts:
            raise Unreachable("there is no way to the server", maybe_processed=False)
        self.link.on_request()


class _RecordingTransport(Struct, frozen=True):
    """Notes what reaches the server, whether or not the response gets back."""

    inner: Transport
    run: ProcessRun
    history: History

    async def send(self, request: Request) -> Response:
        response = await self.inner.send(request)
        if is_write(request):
            too_frequent = self.history.wrote(self.run.actor, request.method, request.path, response.status)
            if response.status < 300:
                await self.history.tell(self.run.actor, f"{request.method} {request.path}")
                await self.run.wrote()
            if too_frequent:
                await asyncio.sleep(THROTTLE_DELAY)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


def is_write(request: Request) -> bool:
    """Whether a request is meant to change something."""
    return request.method not in READS and not request.path.endswith(REVIEWS)
