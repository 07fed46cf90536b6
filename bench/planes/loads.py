"""What both servers are asked to do, and how fast they are at it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

import orjson

from bench.planes.servers import Server
from bench.planes.wire import Call, Clients, Connection

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
IN_FLIGHT = 16
PATH = "/api/v1/namespaces/bench/secrets"
LISTED = 5_000
WATCHERS = 200
CHANGES = 25


@dataclass
class Bench:
    """One server under load; names never repeat, so every write is a real one."""

    server: Server
    clients: Clients
    numbers: count[int] = field(default_factory=count)

    @classmethod
    async def open(cls, server: Server) -> Bench:
        """Connect, and make what the loads need."""
        bench = cls(server, await Clients.open(server.port, server.trust, IN_FLIGHT))
        await bench.clients.send([("POST", "/api/v1/namespaces", JSON, orjson.dumps({"metadata": {"name": "bench"}}))])
        account = (
            "POST",
            "/api/v1/namespaces/bench/serviceaccounts",
            JSON,
            orjson.dumps({"metadata": {"name": "robot"}}),
        )
        await bench.clients.send([account])
        return bench

    async def create(self, total: int = 800) -> float:
        """Create Secrets; return how many per second."""
        return await self._rate([creation(f"s-{next(self.numbers)}") for _ in range(total)])

    async def get(self, total: int = 2_000) -> float:
        """Read one Secret again and again."""
        await self.clients.send([creation(name := f"g-{next(self.numbers)}")])
        return await self._rate([("GET", f"{PATH}/{name}", "", b"")] * total)

    async def patch(self, total: int = 800) -> float:
        """Change Secrets by merge patch, each write a new value."""
        names = [f"p-{next(self.numbers)}" for _ in range(IN_FLIGHT)]
        await self.clients.send([creation(name) for name in names])
        calls: list[Call] = [
            ("PATCH", f"{PATH}/{names[i % IN_FLIGHT]}", MERGE, orjson.dumps({"stringData": {"n": str(i)}}))
            for i in range(total)
        ]
        return await self._rate(calls)

    async def apply(self, total: int = 800) -> float:
        """Apply Secrets on the server, each time with a new value."""
        names = [f"a-{next(self.numbers)}" for _ in range(IN_FLIGHT)]
        calls: list[Call] = []
        for i in range(total):
            name = names[i % IN_FLIGHT]
            said = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"n": str(i)}}
            calls.append(("PATCH", f"{PATH}/{name}?fieldManager=bench&force=true", APPLY, orjson.dumps(said)))
        return await self._rate(calls)

    async def tokens(self, total: int = 300) -> float:
        """Ask for tokens of a service account."""
        asked = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        return await self._rate([("POST", "/api/v1/namespaces/bench/serviceaccounts/robot/token", JSON, asked)] * total)

    async def list_all(self, times: int = 3) -> float:
        """List thousands of Secrets at once; return objects per second."""
        have = next(self.numbers)
        missing = max(0, LISTED - have)
        await self.clients.send([creation(f"l-{next(self.numbers)}") for _ in range(missing)])
        begin = time.perf_counter()
        for _ in range(times):
            await self.clients.connections[0].ask(("GET", f"{PATH}?limit={LISTED}", "", b""))
        return LISTED * times / (time.perf_counter() - begin)

    async def watch(self) -> float:
        """Tell many watchers of the same changes; return events per second, all of them received."""
        await self.clients.send([creation(name := f"w-{next(self.numbers)}")])
        query = f"watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion=0"
        watchers = (await Clients.open(self.server.port, self.server.trust, WATCHERS)).connections
        for watcher in watchers:
            watcher.send(("GET", f"{PATH}?{query}", "", b""))
        await asyncio.gather(*(_events(watcher, 1, head=True) for watcher in watchers))
        begin = time.perf_counter()
        told = [asyncio.create_task(_events(watcher, CHANGES)) for watcher in watchers]
        for i in range(CHANGES):
            change = orjson.dumps({"stringData": {"n": str(i)}})
            await self.clients.connections[0].ask(("PATCH", f"{PATH}/{name}", MERGE, change))
        await asyncio.gather(*told)
        spent = time.perf_counter() - begin
        Clients(watchers).close()
        return WATCHERS * CHANGES / spent

    async def _rate(self, calls: list[Call]) -> float:
        begin = time.perf_counter()
        await self.clients.send(calls)
        return len(calls) / (time.perf_counter() - begin)


async def _events(watcher: Connection, wanted: int, *, head: bool = False) -> None:
    if head:
        await watcher.head()
    seen = 0
    while seen < wanted:
        seen += (await watcher.chunk()).count(b"\n")


def creation(name: str) -> Call:
    """Return the call that creates a Secret of a usual size."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"app": "bench"}}}
    return "POST", PATH, JSON, orjson.dumps({**secret, "stringData": {"token": "x" * 900, "namespace": "bench"}})


Load = Callable[[Bench], Awaitable[float]]

LOADS: dict[str, tuple[str, Load]] = {
    "create": ("/s", Bench.create),
    "get": ("/s", Bench.get),
    "patch": ("/s", Bench.patch),
    "apply": ("/s", Bench.apply),
    "TokenRequest": ("/s", Bench.tokens),
    f"list {LISTED:,}": ("objects/s", Bench.list_all),
    f"watch x {WATCHERS}": ("events/s", Bench.watch),
}
