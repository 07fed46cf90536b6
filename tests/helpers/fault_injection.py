"""A transport that injects faults, the same ones for the same seed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from random import Random

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.kube.errors import Unreachable
from watchword.kube.transport import Transport
from watchword.kube.watch_stream import LineSplitter


class WatchFaults(Struct, frozen=True):
    """Fault rates per line of a watch (0 to 1)."""

    drop: float = 0.0  # the line is lost, and the connection with it
    cut: float = 0.0  # the connection breaks in the middle of the line
    delay: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0  # the line and the next are swapped
    stall: float = 0.0  # this line and all that follow never arrive; the connection stays open
    expire: float = 0.0  # the server ends the watch with 410
    swallow: float = 0.0  # the line is lost silently: no correct server does this


class FaultPlan(Struct, frozen=True):
    """Fault rates per request (0 to 1)."""

    refuse: float = 0.0  # no connection: the request had no effect
    lose: float = 0.0  # processed, but the response never arrives
    cut: float = 0.0  # processed, but only half of the response arrives
    fail: float = 0.0  # one of `codes` instead of being processed
    stall: float = 0.0  # no response, ever
    delay: float = 0.0
    codes: tuple[int, ...] = (429, 500, 503, 504)
    longest_delay: float = 5.0
    watch: WatchFaults = field(default_factory=WatchFaults)


class FaultyTransport:
    """Wraps a transport; replace `plan` to change the fault rates; `injected` counts the faults."""

    def __init__(self, inner: Transport, plan: FaultPlan, random: Random) -> None:
        self.plan = plan
        self.injected: Counter[str] = Counter()
        self._inner = inner
        self._random = random

    async def send(self, request: Request) -> Response:
        refusal = await self._before()
        if refusal is not None:
            return refusal
        response = await self._inner.send(request)
        if self._injects("lose", self.plan.lose):
            raise Unreachable("the response was lost")
        if self._injects("cut", self.plan.cut):
            return replace(response, body=response.body[: len(response.body) // 2])
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Send one request; each line of its response is subject to faults."""
        refusal = await self._before()
        if refusal is not None:
            yield refusal
            return
        async with self._inner.stream(request) as response:
            if response.stream is None or not 200 <= response.status < 300:
                yield response
                return
            async with aclosing(self._lines(response.stream)) as lines:
                yield replace(response, stream=lines)

    async def close(self) -> None:
        await self._inner.close()

    async def _before(self) -> Response | None:
        plan = self.plan
        if self._injects("delay", plan.delay):
            await asyncio.sleep(self._random.uniform(0, plan.longest_delay))
        if self._injects("refuse", plan.refuse):
            raise Unreachable("the connection was refused", maybe_processed=False)
        if self._injects("stall", plan.stall):
            await asyncio.Event().wait()
        if self._injects("fail", plan.fail):
            code = self._random.choice(plan.codes)
            return Response(code, (("Content-Type", "application/json"),), orjson.dumps(_status(code)))
        return None

    async def _lines(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        splitter = LineSplitter()
        held = b""
        async for chunk in chunks:
            for text in splitter.feed(chunk):
                line = text + b"\n"
                await self._hold_up()
                last_words = self._choose_end(line)
                if last_words is not None:
                    yield last_words
                    raise Unreachable("the connection was reset")
                if self._injects("watch swallow", self.plan.watch.swallow):
                    continue
                if not held and self._injects("watch reorder", self.plan.watch.reorder):
                    held = line
                    continue
                again = line if self._injects("watch duplicate", self.plan.watch.duplicate) else b""
                yield line + again + held
                held = b""
        yield held

    async def _hold_up(self) -> None:
        if self._injects("watch delay", self.plan.watch.delay):
            await asyncio.sleep(self._random.uniform(0, self.plan.longest_delay))
        if self._injects("watch stall", self.plan.watch.stall):
            await asyncio.Event().wait()

    def _choose_end(self, line: bytes) -> bytes | None:
        """Return what still arrives before the connection breaks at this line; None when it does not break."""
        faults = self.plan.watch
        if self._injects("watch drop", faults.drop):
            return b""
        if self._injects("watch cut", faults.cut):
            return line[: len(line) // 2]
        if self._injects("watch expire", faults.expire):
            return orjson.dumps({"type": "ERROR", "object": {**_status(410), "reason": "Expired"}}) + b"\n"
        return None

    def _injects(self, name: str, chance: float) -> bool:
        if chance <= 0 or self._random.random() >= chance:
            return False
        self.injected[name] += 1
        return True


def _status(code: int) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": "injected fault"}
