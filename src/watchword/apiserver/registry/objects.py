"""Objects of a kind in the store, whatever version they are stored in."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.apiserver.errors import internal, storage_full
from watchword.apiserver.model import ResourceKind
from watchword.apiserver.store.errors import StorageFull, WriteRefused
from watchword.apiserver.store.model import Change, Record, Store, path_of


@dataclass(frozen=True, slots=True)
class Stored:
    """One object as a writer must build on it; `obj` is a copy of its own."""

    obj: Object
    record: Record

    @property
    def revision(self) -> int:
        """The revision to expect when writing."""
        return self.record.revision


def bucket_of(kind: ResourceKind) -> str:
    """Return where objects of the kind are kept: one place for all its versions."""
    return (kind.stored_as or kind.resource).group_resource


@dataclass(frozen=True, slots=True)
class Objects:
    """Reads and writes decoded objects."""

    store: Store
    _heads: dict[Resource, bytes] = field(default_factory=dict)

    def get(self, kind: ResourceKind, key: ObjectKey) -> Object | None:
        """Return a copy of the committed object."""
        record = self.store.get(bucket_of(kind), path_of(key))
        return self.decode(kind, record) if record is not None else None

    def latest(self, kind: ResourceKind, key: ObjectKey) -> Stored | None:
        """Return the object a writer must build on, which may still be on its way to the disk."""
        record = self.store.latest(bucket_of(kind), path_of(key))
        return Stored(self.decode(kind, record), record) if record is not None else None

    def decode(self, kind: ResourceKind, record: Record) -> Object:
        """Return a fresh copy of a record's object in the version of `kind`."""
        obj: Object = orjson.loads(record.body)
        if kind.from_stored is not None:
            obj = kind.from_stored(obj)
        elif obj["apiVersion"] != kind.resource.api_version:
            obj["apiVersion"] = kind.resource.api_version
            if kind.custom:
                from watchword.apiserver.registry.forms import default_custom  # noqa: PLC0415 - rare

                default_custom(kind, obj)
        return obj

    def wire(self, kind: ResourceKind, record: Record) -> bytes:
        """Return the JSON of a record in the version of `kind`, without decoding when it is stored so."""
        if kind.from_stored is None and record.body.startswith(self.head(kind.resource)):
            return record.body
        return encode_object(self.decode(kind, record))

    def item(self, kind: ResourceKind, record: Record) -> bytes:
        """Return the JSON of a record as it stands in a list: typed kinds leave out what the list says."""
        body = self.wire(kind, record)
        if kind.custom:
            return body
        return b"{" + body[len(self.head(kind.resource)) :]

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
            return encode_object(stored)

        try:
            return await self.store.write(Change(bucket_of(kind), path_of(key), expected, render, deleted=deleted))
        except StorageFull as refusal:
            raise storage_full(str(refusal)) from refusal
        except WriteRefused as refusal:
            raise internal(str(refusal)) from refusal


def encode_object(obj: Object) -> bytes:
    """Encode an object with apiVersion and kind first, as the short cuts above expect."""
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": obj["metadata"]}
    return orjson.dumps({**head, **obj})


def _stored_form(kind: ResourceKind, obj: Object) -> Object:
    if kind.to_stored is not None:
        return kind.to_stored(obj)
    if kind.storage_version and kind.storage_version != kind.resource.version:
        return {**obj, "apiVersion": f"{kind.resource.group}/{kind.storage_version}"}
    return obj
