"""The objects of one kind as the hub last sent them, with revisions of our own for watches."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.sensitive import HiddenFields
from watchword.registration.grpc.client.object_events import ObjectCodec, ObjectEvent
from watchword.registration.grpc.event_types import DataType

REMEMBERED_DELETIONS = 256


class StoredObject(HiddenFields, frozen=True):
    """One object. Its resourceVersion is our revision: the hub's versions may arrive in any order."""

    hidden = ("raw",)

    key: ObjectKey
    uid: str
    version: str  # the hub's
    revision: int
    created: int  # the revision at which it was first stored
    raw: bytes  # JSON
    is_written: bool = False  # we changed it, and the hub has not sent the result yet

    @property
    def object(self) -> Object:
        """The object, decoded; its resourceVersion is the revision."""
        decoded: Object = orjson.loads(self.raw)
        return decoded


class StoreChange(HiddenFields, frozen=True):
    """One change as a watch reports it."""

    hidden = ("raw",)

    type: str  # ADDED, MODIFIED or DELETED
    revision: int
    raw: bytes


class ObjectStore:
    """Stores objects by key; numbers every change, and wakes those that wait for one."""

    def __init__(self, codec: ObjectCodec, *, first_revision: int) -> None:
        self.codec = codec
        self.revision = self._known_from = first_revision
        self._objects: dict[ObjectKey, StoredObject] = {}
        self._keys: dict[str, ObjectKey] = {}  # by UID
        self._deletions: deque[StoreChange] = deque(maxlen=REMEMBERED_DELETIONS)
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[StoredObject]:
        return iter(list(self._objects.values()))

    def find(self, key: ObjectKey) -> StoredObject | None:
        """Return an object, None when it is not there."""
        return self._objects.get(key)

    @property
    def versions(self) -> dict[str, str]:
        """The hub's version of every object, by UID."""
        return {stored.uid: stored.version for stored in self._objects.values()}

    def receive(self, event: ObjectEvent) -> None:
        """Store what the hub says about an object."""
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
        if before is not None and not is_written and _is_same(before.object, obj):
            self._objects[key] = replace(before, version=version, is_written=False)
            self.wake()
            return
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        created = self.revision if before is None else before.created
        self._keys[uid] = key
        self._objects[key] = StoredObject(key, uid, version, self.revision, created, orjson.dumps(obj), is_written)
        self.wake()

    def _remove(self, stored: StoredObject) -> None:
        self.revision += 1
        del self._objects[stored.key]
        del self._keys[stored.uid]
        if len(self._deletions) == REMEMBERED_DELETIONS:
            self._known_from = self._deletions[0].revision
        last = stored.object
        last["metadata"]["resourceVersion"] = str(self.revision)
        self._deletions.append(StoreChange("DELETED", self.revision, orjson.dumps(last)))
        self.wake()

    def changes_since(self, revision: int) -> list[StoreChange] | None:
        """Return the changes after a revision in order, None when some of them are not known any more."""
        if not self._known_from <= revision <= self.revision:
            return None
        found = [change for change in self._deletions if change.revision > revision]
        for stored in self._objects.values():
            if stored.revision > revision:
                type_ = "ADDED" if stored.created > revision else "MODIFIED"
                found.append(StoreChange(type_, stored.revision, stored.raw))
        return sorted(found, key=lambda change: change.revision)

    async def wait_changed(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    def wake(self) -> None:
        """Wake those that wait for a change, also when none will come any more."""
        self._changed.set()
        self._changed = asyncio.Event()


def _is_same(one: Object, other: Object) -> bool:
    return _without_version(one) == _without_version(other)


def _without_version(obj: Object) -> dict[str, Any]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


class ObjectStores:
    """The stores of all kinds; they outlive a connection, so that the next one asks only for what is newer."""

    def __init__(self, *, now: Callable[[], int] = time.time_ns) -> None:
        # Revisions do not repeat after a restart: a watch that continues with older ones is told to list again.
        self._first_revision = now() // 1000
        self._stores: dict[DataType, ObjectStore] = {}

    def of(self, codec: ObjectCodec) -> ObjectStore:
        """Return the store of a kind."""
        found = self._stores.get(codec.data_type)
        if found is None:
            found = self._stores[codec.data_type] = ObjectStore(codec, first_revision=self._first_revision)
        return found
