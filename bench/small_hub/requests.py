"""Sends queued requests over a few connections, and reads watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.planes.servers import Server
from bench.planes.wire import Call, Connection
from watchword.api.meta import Object

CONNECTIONS = 16


@dataclass
class RequestQueue:
    """Sends each queued call over the first connection that is free."""

    waiting: asyncio.Queue[Call] = field(default_factory=asyncio.Queue)

    def put(self, call: Call) -> None:
        """Queue one call."""
        self.waiting.put_nowait(call)

    async def send(self, server: Server) -> None:
        """Send over one connection until cancelled; anything but success raises."""
        connection = await Connection.open(server.port, server.trust)
        try:
            while True:
                await connection.ask(await self.waiting.get())
                self.waiting.task_done()
        finally:
            connection.close()


@asynccontextmanager
async def running(*jobs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run jobs for as long as the context is open; an error of one of them ends it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in jobs]
        yield
        for task in tasks:
            task.cancel()


async def watch(server: Server, path: str) -> AsyncGenerator[tuple[str, Object], None]:
    """Yield the type and the object of every event: first all that exist, then each change; goes on where one ends."""
    revision = "0"
    while True:
        async with aclosing(_watch_once(server, path, revision)) as events:
            async for kind, obj in events:
                if kind == "ERROR":
                    raise RuntimeError(f"the watch of {path} was refused: {obj.get('message')}")
                revision = obj["metadata"]["resourceVersion"]
                yield kind, obj


async def _watch_once(server: Server, path: str, revision: str) -> AsyncGenerator[tuple[str, Object], None]:
    connection = await Connection.open(server.port, server.trust)
    try:
        mark = "&" if "?" in path else "?"
        connection.send(("GET", f"{path}{mark}watch=1&resourceVersion={revision}", "", b""))
        await connection.head()
        rest = b""
        while chunk := await connection.chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = orjson.loads(line)
                yield event["type"], event["object"]
    finally:
        connection.close()
