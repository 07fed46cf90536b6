"""The finish line: one watch that tells the moment at which the work is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Self

import orjson

from watchword.api.meta import Object, Resource
from watchword.kube.client import Client
from watchword.kube.watch import ObjectChange, Snapshot, list_and_watch

Check = Callable[[str, Object], bool]
"""Takes the type of an event and its object; True once everything is done."""


class FinishLine:
    """Watches from when its context is entered; `crossed` waits for the check to hold."""

    def __init__(
        self, client: Client, resource: Resource, check: Check, *, namespace: str = "", fields: str = ""
    ) -> None:
        self._client = client
        self._resource = resource
        self._check = check
        self._namespace = namespace
        self._fields = fields
        self._watching = asyncio.Event()
        self._done = asyncio.Event()
        self._done_at = 0.0
        self.events = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        await self._watching.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def crossed(self, limit: float) -> float:
        """Return the moment of completion, on the monotonic clock."""
        async with asyncio.timeout(limit):
            await self._done.wait()
        return self._done_at

    def again(self) -> None:
        """Forget that the line was crossed: another lap begins."""
        self._done.clear()

    async def _watch(self) -> None:
        followed = list_and_watch(self._client, self._resource, namespace=self._namespace, fields=self._fields)
        async with aclosing(followed) as facts:
            async for fact in facts:
                if isinstance(fact, Snapshot):
                    for raw in fact.items:
                        self._take("ADDED", raw)
                    self._watching.set()
                elif isinstance(fact, ObjectChange):
                    self._take(fact.type, fact.raw)

    def _take(self, event: str, raw: bytes) -> None:
        self.events += 1
        if self._check(event, orjson.loads(raw)) and not self._done.is_set():
            self._done_at = time.monotonic()
            self._done.set()
