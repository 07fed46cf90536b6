"""Answers a watch from a store: the present objects, then every change, as lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import orjson
from msgspec import Struct

from watchword.api.meta import Resource
from watchword.kube.watch_stream import INITIAL_EVENTS_END
from watchword.registration.grpc.client.object_store import ObjectStore
from watchword.registration.grpc.client.object_subscription import EventFeed
from watchword.registration.grpc.client.request_target import ObjectFilter

_EXPIRED = orjson.dumps(
    {"kind": "Status", "code": 410, "reason": "Expired", "message": "the watch missed changes: list again"}
)


class StoreWatch(Struct, frozen=True, kw_only=True):
    """One watch of the objects in a store."""

    store: ObjectStore
    feed: EventFeed
    selected: ObjectFilter
    since: int | None  # None: the present objects come first
    seconds: float | None  # after which the watch ends; None: never

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines; raises why the events of the hub ended."""
        end = None if self.seconds is None else asyncio.get_running_loop().time() + self.seconds
        position = self.since
        if position is None:
            position = self.store.revision
            for stored in self.store:
                if self.selected.matches(stored.object):
                    yield _line("ADDED", stored.raw)
            yield _line("BOOKMARK", _bookmark(self.store.codec.resource, position))
        while True:
            changes = self.store.changes_since(position)
            if changes is None:
                yield _line("ERROR", _EXPIRED)
                return
            for change in changes:
                position = change.revision
                if self.selected.matches(orjson.loads(change.raw)):
                    yield _line(change.type, change.raw)
            self.feed.raise_failure()
            if position == self.store.revision and not await self._wait_changed(end):
                return

    async def _wait_changed(self, end: float | None) -> bool:
        try:
            async with asyncio.timeout_at(end):
                await self.store.wait_changed()
        except TimeoutError:
            return False
        return True


def _line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), raw)


def _bookmark(resource: Resource, revision: int) -> bytes:
    metadata = {"resourceVersion": str(revision), "annotations": {INITIAL_EVENTS_END: "true"}}
    return orjson.dumps({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})
