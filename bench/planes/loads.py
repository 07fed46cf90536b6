"""What both servers are asked to do, and how fast they are at it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import orjson

from bench.planes.servers import Server
from bench.planes.wire import Call, Clients

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
IN_FLIGHT = 16
PATH = "/api/v1/namespaces/bench/secrets"
LISTED = 5_000
WATCHERS = 200
CHANGES = 25


@dataclass
class Cost:
    """What a load took: on the clock, and of the server's processor time."""

    operations: int
    seconds: float = 0.0
    cpu: float = 0.0


@dataclass
class Bench:
    """One server under load; names never repeat, so every write is a real one."""

    server: Server
    clients: Clients
    numbers: count[int] = field(default_factory=count)

    @classmethod
    async def connect(cls, server: Server) -> Bench:
        """Connect to a server that has all it needs."""
        return cls(server, await Clients.open(server.port, server.trust, IN_FLIGHT))

    @classmethod
    async def open(cls, server: Server) -> Bench:
        """Connect, and make what the loads need."""
        bench = await cls.connect(server)
        await bench.clients.send([("POST", "/api/v1/namespaces", JSON, orjson.dumps({"metadata": {"name": "bench"}}))])
        account = (
            "POST",
            "/api/v1/namespaces/bench/serviceaccounts",
            JSON,
            orjson.dumps({"metadata": {"name": "robot"}}),
        )
        await bench.clients.send([account])
        return bench

    async def create(self, total: int = 800) -> Cost:
        """Create Secrets."""
        return await self._cost([creation(f"s-{next(self.numbers)}") for _ in range(total)])

    async def create_alone(self, total: int = 200) -> Cost:
        """Create Secrets one after the other: the rate is the inverse of one write's latency."""
        with self._measured(total) as cost:
            for _ in range(total):
                await self.clients.connections[0].ask(creation(f"s-{next(self.numbers)}"))
        return cost

    async def get(self, total: int = 2_000) -> Cost:
        """Read one Secret again and again."""
        await self.clients.send([creation(name := f"g-{next(self.numbers)}")])
        return await self._cost([("GET", f"{PATH}/{name}", "", b"")] * total)

    async def patch(self, total: int = 800) -> Cost:
        """Change Secrets by merge patch, each write a new value."""
        names = [f"p-{next(self.numbers)}" for _ in range(IN_FLIGHT)]
        await self.clients.send([creation(name) for name in names])
        calls: list[Call] = [
            ("PATCH", f"{PATH}/{names[i % IN_FLIGHT]}", MERGE, orjson.dumps({"stringData": {"n": str(i)}}))
            for i in range(total)
        ]
        return await self._cost(calls)

    async def apply(self, total: int = 800) -> Cost:
        """Apply Secrets on the server, each time with a new value."""
        names = [f"a-{next(self.numbers)}" for _ in range(IN_FLIGHT)]
        calls: list[Call] = []
        for i in range(total):
            name = names[i % IN_FLIGHT]
            said = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"n": str(i)}}
            calls.append(("PATCH", f"{PATH}/{name}?fieldManager=bench&force=true", APPLY, orjson.dumps(said)))
        return await self._cost(calls)

    async def tokens(self, total: int = 300) -> Cost:
        """Ask for tokens of a service account."""
        asked = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        return await self._cost([("POST", "/api/v1/namespaces/bench/serviceaccounts/robot/token", JSON, asked)] * total)

    async def list_all(self, times: int = 3) -> Cost:
        """List thousands of Secrets at once; an operation is an object."""
        have = next(self.numbers)
        missing = max(0, LISTED - have)
        await self.clients.send([creation(f"l-{next(self.numbers)}") for _ in range(missing)])
        with self._measured(LISTED * times) as cost:
            for _ in range(times):
                await self.clients.connections[0].ask(("GET", f"{PATH}?limit={LISTED}", "", b""))
        return cost

    async def watch(self) -> Cost:
        """Tell many watchers of the same changes until the last has heard the last; an operation is an event."""
        await self.clients.send([creation(name := f"w-{next(self.numbers)}")])
        watched = f"{PATH}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion=0"
        options = (str(self.server.port), str(self.server.data.parent), watched, str(WATCHERS), str(CHANGES))
        watchers = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.planes.watchers", *options, stdout=asyncio.subprocess.PIPE
        )
        assert watchers.stdout is not None
        await watchers.stdout.readline()
        with self._measured(WATCHERS * CHANGES) as cost:
            for i in range(CHANGES):
                change = orjson.dumps({"stringData": {"n": str(i)}})
                await self.clients.connections[0].ask(("PATCH", f"{PATH}/{name}", MERGE, change))
            await watchers.stdout.readline()
        await watchers.wait()
        return cost

    async def _cost(self, calls: list[Call]) -> Cost:
        with self._measured(len(calls)) as cost:
            await self.clients.send(calls)
        return cost

    @contextmanager
    def _measured(self, operations: int) -> Iterator[Cost]:
        cost = Cost(operations)
        begin, used = time.perf_counter(), self.server.cpu
        yield cost
        cost.seconds, cost.cpu = time.perf_counter() - begin, self.server.cpu - used


def creation(name: str) -> Call:
    """Return the call that creates a Secret of a usual size."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"app": "bench"}}}
    return "POST", PATH, JSON, orjson.dumps({**secret, "stringData": {"token": "x" * 900, "namespace": "bench"}})


Load = Callable[[Bench], Awaitable[Cost]]

LOADS: dict[str, tuple[str, Load]] = {
    "create": ("/s", Bench.create),
    "one create": ("/s", Bench.create_alone),
    "get": ("/s", Bench.get),
    "patch": ("/s", Bench.patch),
    "apply": ("/s", Bench.apply),
    "TokenRequest": ("/s", Bench.tokens),
    f"list {LISTED:,}": ("objects/s", Bench.list_all),
    f"watch x {WATCHERS}": ("events/s", Bench.watch),
}

ECHOED = ("create", "one create")
"""Loads that also go to a TLS server that only sends bodies back."""
