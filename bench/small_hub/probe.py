"""Measures how long a change takes to reach a watcher while the server is busy with other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import orjson
from msgspec import Struct

from bench.planes.loads import MERGE
from bench.planes.servers import Server
from bench.planes.wire import Connection
from bench.small_hub.requests import running, watch

PAUSE = 0.05
PATH = "/api/v1/namespaces/default/configmaps"
NAME = "probe"  # of a ConfigMap that exists before


class Latency(Struct, frozen=True):
    """Seconds from sending a write to its event at a watcher."""

    median: float
    p99: float
    longest: float
    samples: int


@dataclass
class Probe:
    """Changes one ConfigMap again and again while its context is open."""

    server: Server
    seconds: list[float] = field(default_factory=list)
    _arrived: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Write and watch for as long as the context is open."""
        async with running(self._watch(), self._write()):
            yield

    @property
    def latency(self) -> Latency:
        """The distribution of everything measured so far."""
        return latency_of(self.seconds)

    async def _watch(self) -> None:
        path = f"{PATH}?fieldSelector=metadata.name%3D{NAME}"
        async with aclosing(watch(self.server, path)) as events:
            async for _, obj in events:
                self._arrived.put_nowait((obj.get("data") or {}).get("n", ""))

    async def _write(self) -> None:
        connection = await Connection.open(self.server.port, self.server.trust)
        for number in range(10**9):
            wanted = f"{time.time_ns()}-{number}"
            begin = time.perf_counter()
            change = ("PATCH", f"{PATH}/{NAME}", MERGE, orjson.dumps({"data": {"n": wanted}}))
            await connection.ask(change)
            while await self._arrived.get() != wanted:
                pass
            self.seconds.append(time.perf_counter() - begin)
            await asyncio.sleep(PAUSE)


def latency_of(seconds: Sequence[float]) -> Latency:
    """Return the distribution of some measurements."""
    ordered = sorted(seconds)
    count = len(ordered)
    return Latency(ordered[count // 2], ordered[count * 99 // 100], ordered[-1], count)
