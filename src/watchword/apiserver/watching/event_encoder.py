"""Encodes watch events, one JSON object per line."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from msgspec import Struct

from watchword.api.meta import Object, Resource
from watchword.apiserver.errors import status_object
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.object_storage import ObjectStorage, encode_object
from watchword.apiserver.store.model import Record, StoreEvent

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

ObjectTransform = Callable[[Object], Object]
"""Turns an object into what the client asked to see of it."""


def encode_event(kind: str, body: bytes) -> bytes:
    """Return one event with an encoded object."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def bookmark(resource: Resource, revision: int, *, initial_events_end: bool = False) -> Object:
    """Return the object of a bookmark: nothing but a revision."""
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}


def encode_error_event(error: ApiError) -> bytes:
    """Return the event that ends a stream with a refusal."""
    return encode_event("ERROR", orjson.dumps(status_object(error)))


class EventEncoder(Struct, frozen=True):
    """Encodes the events of one watch; plain JSON is shared with every other watch of the same version."""

    kind: ResourceKind
    objects: ObjectStorage
    show: ObjectTransform | None = None  # None: the object itself, as plain JSON

    def record(self, word: str, record: Record) -> bytes:
        """Return the event that shows a record."""
        if self.show is None:
            return encode_event(word, self.objects.wire(self.kind, record))
        return encode_event(word, orjson.dumps(self.show(self.objects.decode(self.kind, record))))

    def change(self, word: str, event: StoreEvent) -> bytes:
        """Return the event that shows the new state of a change."""
        if self.show is not None:
            return self.record(word, event.record)
        shared = (word, self.kind.resource.version, self.kind.resource.group)
        encoded = event.frames.get(shared)
        if encoded is None:
            encoded = event.frames[shared] = self.record(word, event.record)
        return encoded

    def deleted_by_selector(self, event: StoreEvent) -> bytes:
        """Return DELETED for an object that no longer matches: its last matching state, the change's revision."""
        assert event.previous is not None
        obj = self.objects.decode(self.kind, event.previous)
        obj["metadata"]["resourceVersion"] = str(event.revision)
        if self.show is not None:
            return encode_event("DELETED", orjson.dumps(self.show(obj)))
        return encode_event("DELETED", encode_object(obj))

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """Return a bookmark event."""
        obj = bookmark(self.kind.resource, revision, initial_events_end=initial_events_end)
        return encode_event("BOOKMARK", orjson.dumps(obj if self.show is None else self.show(obj)))
