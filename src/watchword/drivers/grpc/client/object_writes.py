"""Publishes what an agent writes, under the versions that the hub knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from watchword.api.meta import Object, ObjectKey
from watchword.drivers.grpc.client.channel import EventChannel
from watchword.drivers.grpc.client.channel_errors import make_refusal
from watchword.drivers.grpc.client.object_events import ObjectCodec
from watchword.drivers.grpc.client.object_store import ObjectStore, StoredObject
from watchword.drivers.grpc.event_types import DataType, EventType

ECHO_SECONDS = 2.0
"""How long a second write of an object waits for the hub's version of the first; the hub refuses older versions."""


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Publishes one change of a kind at a time."""

    channel: EventChannel
    locks: dict[DataType, asyncio.Lock] = field(default_factory=dict)

    async def create(self, codec: ObjectCodec, type_: EventType, obj: Object) -> Object:
        """Create an object; returns it as it was sent, for the hub's answer contains none."""
        event = codec.encode(type_, obj, {})
        await self.channel.publish(event.to_event(self.channel.source, self.channel.cluster))
        return obj

    async def change(
        self, store: ObjectStore, key: ObjectKey, type_: EventType, change: Callable[[Object], Object]
    ) -> StoredObject:
        """Change an object; a refusal when it is not there, or was changed or replaced meanwhile."""
        async with self.locks.setdefault(store.codec.data_type, asyncio.Lock()):
            stored = await self._find_settled(store, key)
            if stored is None:
                resource = store.codec.resource.group_resource
                raise make_refusal(404, "NotFound", f"{resource} {key.name!r} not found")
            present = stored.object
            changed = change(present)
            _require_same_version(present, changed, key)
            known = {**changed, "metadata": {**changed["metadata"], "resourceVersion": stored.version}}
            event = store.codec.encode(type_, known, {})
            await self.channel.publish(event.to_event(self.channel.source, self.channel.cluster))
            latest = store.find(key)
            if latest is None or latest.revision != stored.revision:
                return latest or stored  # the hub's result was faster
            return store.write(stored, changed)

    async def _find_settled(self, store: ObjectStore, key: ObjectKey) -> StoredObject | None:
        if not store.codec.returns_writes:
            return store.find(key)
        try:
            async with asyncio.timeout(ECHO_SECONDS):
                while (stored := store.find(key)) is not None and stored.is_written:
                    await store.wait_changed()
                return stored
        except TimeoutError:
            return store.find(key)


def _require_same_version(present: Object, changed: Object, key: ObjectKey) -> None:
    for name in ("uid", "resourceVersion"):
        wanted = changed["metadata"].get(name)
        if wanted and wanted != present["metadata"].get(name):
            message = f"{key} was changed or replaced meanwhile: read it again"
            raise make_refusal(409, "Conflict", message)
