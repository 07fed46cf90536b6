"""ObjectStorage of a kind in the store, whatever version they are stored in."""

from __future__ import annotations

import orjson
from msgspec import Struct, field

from watchword.api.json import trimmed
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.apiserver.errors import internal, storage_full
from watchword.apiserver.model import ResourceKind
from watchword.apiserver.schema.defaults import apply_defaults
from watchword.apiserver.schema.model import Schema
from watchword.apiserver.schema.prune import prune
from watchword.apiserver.store.errors import StorageFull, WriteFailed
from watchword.apiserver.store.model import Record, Store, StoreChange, path_of

FORMS_REMEMBERED = 50_000


class StoredObject(Struct, frozen=True):
    """One object as a writer must build on it; `obj` is a copy of its own."""

    obj: Object
    record: Record

    @property
    def revision(self) -> int:
        """The revision to expect when writing."""
        return self.record.revision


class ConvertedBodies(Struct, frozen=True):
    """What is known of stored custom objects under one schema: their revision, and their form if it differs."""

    schema: Schema
    bodies: dict[str, tuple[int, bytes | None]] = field(default_factory=dict)


def bucket_of(kind: ResourceKind) -> str:
    """Return the bucket of the kind: one for all its versions."""
    return (kind.stored_as or kind.resource).group_resource


class ObjectStorage(Struct, frozen=True):
    """Reads and writes decoded objects."""

    store: Store
    _heads: dict[Resource, bytes] = field(default_factory=dict)
    _converted: dict[Resource, ConvertedBodies] = field(default_factory=dict)

    def get(self, kind: ResourceKind, key: ObjectKey) -> Object | None:
        """Return a copy of the committed object."""
        record = self.store.get(bucket_of(kind), path_of(key))
        return self.decode(kind, record) if record is not None else None

    def latest(self, kind: ResourceKind, key: ObjectKey) -> StoredObject | None:
        """Return the object a writer must build on, which may still be on its way to the disk."""
        record = self.store.latest(bucket_of(kind), path_of(key))
        return StoredObject(self.decode(kind, record), record) if record is not None else None

    def decode(self, kind: ResourceKind, record: Record) -> Object:
        """Return a fresh copy of a record's object in the version of `kind`."""
        if kind.custom:
            return _loaded(self._custom(kind, record))
        obj = _loaded(record.body)
        return kind.from_stored(obj) if kind.from_stored is not None else obj

    def wire(self, kind: ResourceKind, record: Record) -> bytes:
        """Return the JSON of a record in the version of `kind`, without decoding when it is stored so."""
        if kind.custom:
            return self._custom(kind, record)
        return record.body if kind.from_stored is None else encode_object(self.decode(kind, record))

    def _custom(self, kind: ResourceKind, record: Record) -> bytes:
        """Return a custom object as its schema of today sees it: the definition may have changed since."""
        bodies = self._bodies(kind)
        known = bodies.get(record.path)
        if known is None or known[0] != record.revision:
            body = _convert_to_current_schema(kind, record.body)
            known = bodies[record.path] = (record.revision, None if body == record.body else body)
        return known[1] if known[1] is not None else record.body

    def _bodies(self, kind: ResourceKind) -> dict[str, tuple[int, bytes | None]]:
        """Return what is known under the schema of today, with room for one more."""
        converted = self._converted.get(kind.resource)
        if converted is None or converted.schema is not kind.schema:
            converted = self._converted[kind.resource] = ConvertedBodies(kind.schema)
        if len(converted.bodies) > FORMS_REMEMBERED:
            converted.bodies.clear()  # objects come and go; what is still needed is soon known again
        return converted.bodies

    def item(self, kind: ResourceKind, record: Record) -> tuple[bytes | memoryview, ...]:
        """Return the JSON of a record as a list item, in chunks: typed kinds leave out apiVersion and kind."""
        body = self.wire(kind, record)
        if kind.custom:
            return (body,)
        return b"{", memoryview(body)[len(self.head(kind.resource)) :]

    def head(self, resource: Resource) -> bytes:
        """Return how every encoded object of the resource begins."""
        known = self._heads.get(resource)
        if known is None:
            known = b'{"apiVersion":"%b","kind":"%b",' % (resource.api_version.encode(), resource.kind.encode())
            self._heads[resource] = known
        return known

    async def put(self, kind: ResourceKind, key: ObjectKey, obj: Object, expected: int) -> Record:
        """Commit a new state; `Stale` when `expected` is not the latest revision."""
        return await self._write(kind, key, obj, expected, deleted=False)

    async def erase(self, kind: ResourceKind, key: ObjectKey, obj: Object, expected: int) -> Record:
        """Commit the end of an object; `obj` is its last state, for watchers."""
        return await self._write(kind, key, obj, expected, deleted=True)

    async def _write(self, kind: ResourceKind, key: ObjectKey, obj: Object, expected: int, *, deleted: bool) -> Record:
        stored = _stored_form(kind, obj)

        def render(revision: int) -> bytes:
            stored["metadata"]["resourceVersion"] = str(revision)
            if kind.custom and stored is obj:
                self._bodies(kind)[path_of(key)] = (revision, None)  # a verb has just brought it into this form
            return trimmed(encode_object(stored))

        try:
            return await self.store.write(StoreChange(bucket_of(kind), path_of(key), expected, render, deleted=deleted))
        except StorageFull as refusal:
            raise storage_full(str(refusal)) from refusal
        except WriteFailed as refusal:
            raise internal(str(refusal)) from refusal


def encode_object(obj: Object) -> bytes:
    """Encode an object with apiVersion and kind first, as the short cuts above expect."""
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": obj["metadata"]}
    return orjson.dumps({**head, **obj})


def _loaded(body: bytes) -> Object:
    obj: Object = orjson.loads(body)
    return obj


def _convert_to_current_schema(kind: ResourceKind, body: bytes) -> bytes:
    obj = _loaded(body)
    obj["apiVersion"] = kind.resource.api_version
    prune(obj, kind.schema)
    apply_defaults(obj, kind.schema)
    return trimmed(encode_object(obj))


def _stored_form(kind: ResourceKind, obj: Object) -> Object:
    if kind.to_stored is not None:
        return kind.to_stored(obj)
    if kind.storage_version and kind.storage_version != kind.resource.version:
        return {**obj, "apiVersion": f"{kind.resource.group}/{kind.storage_version}"}
    return obj
