"""The objects of one kind as the hub last sent them, kept current by one stream of events and a resync."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import orjson
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.sensitive import HiddenFields
from watchword.kube.errors import KubeError, Unreachable
from watchword.registration.grpc.client.channel import EventChannel, make_refusal
from watchword.registration.grpc.client.object_events import ObjectCodec, ObjectEvent, resync_request
from watchword.registration.grpc.cloud_events import CloudEvent, DataType
from watchword.registration.grpc.errors import GrpcDriverError


class StoredObject(HiddenFields, frozen=True):
    """One object. Its resourceVersion is our revision: the hub's versions may arrive in any order."""

    hidden = ("raw",)

    key: ObjectKey
    uid: str
    version: str  # the hub's
    revision: int
    raw: bytes  # JSON
    is_written: bool = False  # we changed it, and the hub has not sent the result yet

    @property
    def object(self) -> Object:
        """The object, decoded; its resourceVersion is the revision."""
        decoded: Object = orjson.loads(self.raw)
        return decoded


class ObjectStore:
    """Stores objects by key; numbers every change, and wakes those that wait for one."""

    def __init__(self, codec: ObjectCodec, *, first_revision: int = 0) -> None:
        self.codec = codec
        # Revisions do not repeat after a restart: a watch that continues with older ones is told to list again.
        self.revision = first_revision or time.time_ns() // 1000
        self.writing = asyncio.Lock()  # one change is published at a time
        self._objects: dict[ObjectKey, StoredObject] = {}
        self._keys: dict[str, ObjectKey] = {}  # by UID
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[StoredObject]:
        return iter(list(self._objects.values()))

    def find(self, key: ObjectKey) -> StoredObject | None:
        return self._objects.get(key)

    def require(self, key: ObjectKey) -> StoredObject:
        """Return an object; a refusal when it does not exist."""
        found = self.find(key)
        if found is None:
            raise make_refusal(404, "NotFound", f"{self.codec.resource.group_resource} {key.name!r} not found")
        return found

    @property
    def versions(self) -> dict[str, str]:
        return {stored.uid: stored.version for stored in self._objects.values()}

    def receive(self, event: ObjectEvent) -> None:
        key = self._keys.get(event.uid)
        stored = self._objects.get(key) if key is not None else None
        if event.is_gone:
            if stored is not None:
                self._remove(stored)
            return
        received = event.object
        if received is None:
            if stored is None:
                return  # it is being deleted, and was not known here
            received = stored.object
        if event.deletion and not received["metadata"].get("deletionTimestamp"):
            received = {**received, "metadata": {**received["metadata"], "deletionTimestamp": event.deletion}}
        merged = self.codec.merge(stored.object, received) if stored is not None else received
        self._put(merged, event.version or (stored.version if stored is not None else ""))

    def write(self, stored: StoredObject, changed: Object) -> StoredObject:
        """Store the result of our own write until the hub sends it."""
        self._put(changed, stored.version, is_written=True)
        return self._objects[stored.key]

    def _put(self, obj: Object, version: str, *, is_written: bool = False) -> None:
        key, uid = ObjectKey.of(obj), uid_of(obj)
        before = self._objects.get(key)
        if before is not None and before.uid != uid:
            self._remove(before)
            before = None
        if before is not None and not is_written and _without_version(before.object) == _without_version(obj):
            self._objects[key] = replace(before, version=version, is_written=False)
            self.wake()
            return
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        self._keys[uid] = key
        self._objects[key] = StoredObject(key, uid, version, self.revision, orjson.dumps(obj), is_written)
        self.wake()

    def _remove(self, stored: StoredObject) -> None:
        self.revision += 1
        del self._objects[stored.key]
        del self._keys[stored.uid]
        self.wake()

    async def wait_changed(self) -> None:
        await self._changed.wait()

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _without_version(obj: Object) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


ObjectStores: TypeAlias = dict[DataType, ObjectStore]
"""The stores of all kinds; they outlive a connection, so that the next one asks only for what is newer."""

QUIET_SECONDS = 1.0
"""A server that does not mark the end of a resync has sent everything when no event came for so long."""

_log = logging.getLogger(__name__)


class ObjectSubscription:
    """Follows one kind while anything uses it; the objects stay for the next use, which asks only for newer ones."""

    def __init__(self, channel: EventChannel, store: ObjectStore, *, lingers: bool = False) -> None:
        self.store = store
        self._channel = channel
        self._lingers = lingers  # stays open without users: it is used again and again
        self._users = 0
        self._stream: EventFeed | None = None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[EventFeed]:
        """Provide the feed of a synced store; raises the server's refusal, or `Unreachable`."""
        self._users += 1
        try:
            feed = self._stream
            if feed is None or feed.is_over:
                feed = self._stream = EventFeed(self._channel, self.store)
            await feed.wait_synced()
            yield feed
        finally:
            self._users -= 1
            if self._users == 0 and not self._lingers:
                await self.stop()

    async def refresh(self) -> None:
        """Wait until the store contains everything that the hub had when this was called."""
        known = self._stream
        async with self.use() as feed:
            if feed is known:
                await feed.resync()

    async def stop(self) -> None:
        feed, self._stream = self._stream, None
        if feed is not None:
            await feed.stop()


class EventFeed:
    """One stream of events into a store, from its subscription to its end."""

    def __init__(self, channel: EventChannel, store: ObjectStore) -> None:
        self._channel = channel
        self._store = store
        self._failure: KubeError | None = None
        self._marks_resync = False
        self._subscribed = asyncio.Event()
        self._received = asyncio.Event()  # another one after each event
        self._requested: set[str] = set()  # the resyncs whose end was not marked yet
        self._reading = asyncio.create_task(self._read(), name=f"gRPC events of {store.codec.resource.plural}")
        self._syncing = asyncio.create_task(self._sync(), name=f"gRPC resync of {store.codec.resource.plural}")

    @property
    def is_over(self) -> bool:
        """Whether no more events come."""
        return self._failure is not None

    def raise_failure(self) -> None:
        """Raise why the stream ended, when it has."""
        if self._failure is not None:
            raise self._failure

    async def wait_synced(self) -> None:
        """Wait for the end of the first resync."""
        await asyncio.wait({self._syncing})
        self.raise_failure()

    async def resync(self) -> None:
        """Ask for everything that is newer than the store, and wait until it is there."""
        codec, channel = self._store.codec, self._channel
        request = resync_request(codec.data_type, self._store.versions, channel.cluster)
        self._requested.add(request.id)
        try:
            await channel.publish(request)
            while request.id in self._requested:
                self.raise_failure()
                async with asyncio.timeout(None if self._marks_resync else QUIET_SECONDS):
                    await self._received.wait()
        except TimeoutError:
            return
        finally:
            self._requested.discard(request.id)

    async def stop(self) -> None:
        """End the stream; those that wait for it get `Unreachable`."""
        self._fail(Unreachable("the subscription was closed", maybe_processed=False))
        for task in (self._reading, self._syncing):
            task.cancel()
        await asyncio.wait({self._reading, self._syncing})

    async def _sync(self) -> None:
        await self._subscribed.wait()
        if self.is_over:
            return
        try:
            await self.resync()
        except KubeError as error:
            self._fail(error)
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            async with self._channel.subscribe(self._store.codec.data_type) as stream:
                self._marks_resync = stream.marks_resync
                self._subscribed.set()
                async for event in stream.events:
                    self._take(event)
        except KubeError as error:
            self._fail(error)

    def _take(self, event: CloudEvent) -> None:
        try:
            if event.is_heartbeat:
                self._requested.discard(event.id)
            else:
                self._store.receive(self._store.codec.decode(event))
        except GrpcDriverError as error:  # one bad event must not keep the others from this cluster
            _log.warning("the gRPC server sent an event that is ignored: %s", error)
        self._received.set()
        self._received = asyncio.Event()

    def _fail(self, error: KubeError) -> None:
        if self._failure is None:
            self._failure = error
        self._subscribed.set()
        self._received.set()
        self._store.wake()
