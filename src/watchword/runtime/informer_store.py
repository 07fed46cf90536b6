"""Stores the objects of one watch as raw bytes, and ignores outdated events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from watchword._structlog import structlog
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.selectors import parse_label_selector
from watchword.runtime.raw_objects import (
    Delta,
    ObjectHead,
    Projection,
    decode,
    head_of,
    is_newer,
    projected,
    without_managed_fields,
)

IndexFunction: TypeAlias = Callable[[Object], Iterable[str]]
TOMBSTONES_KEPT = 1024


class InformerStore:
    """Objects by key. Every effective change is returned as a `Delta`; an outdated event changes nothing.

    An event is outdated when that version of the object or a later one is stored, when the object was deleted
    later, or when it is absent and the last snapshot is newer.
    """

    def __init__(self, resource: Resource, *, project: Projection | None = None) -> None:
        self._resource = resource
        self._project = project
        self._objects: dict[ObjectKey, bytes] = {}
        self._indexes: dict[str, _Index] = {}
        self._floor = ""
        self._tombstones: OrderedDict[ObjectKey, str] = OrderedDict()
        self._log: Any = structlog.get_logger("watchword.cache").bind(resource=resource.group_resource)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: ObjectKey) -> Object | None:
        """Return one object, freshly decoded."""
        raw = self._objects.get(key)
        return None if raw is None else decode(raw, self._resource)

    def select(self, *, namespace: str = "", labels: str = "") -> Iterator[tuple[ObjectKey, Object]]:
        """Yield the matching objects, in no order."""
        selector = parse_label_selector(labels)
        for key, raw in self._objects.items():
            if namespace and key.namespace != namespace:
                continue
            if not labels or selector.matches(head_of(raw).labels):
                yield key, decode(raw, self._resource)

    def labels(self) -> Iterator[Mapping[str, str]]:
        """Yield the labels of every object."""
        for raw in self._objects.values():
            yield head_of(raw).labels

    def everything(self) -> Iterator[Delta]:
        """Yield every object as if it had just been added."""
        for key, raw in list(self._objects.items()):
            yield Delta(self._resource, key, None, raw)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index objects by the values that a function returns for them."""
        index = self._indexes[name] = _Index(function)
        for key, raw in self._objects.items():
            self._reindex(index, key, decode(raw, self._resource))

    def indexed(self, name: str, value: str) -> Iterable[ObjectKey] | None:
        """Return the keys for which the index function returned that value; None when there is no such index."""
        index = self._indexes.get(name)
        return None if index is None else index.keys(value)

    def replace(self, items: Iterable[bytes], version: str) -> list[Delta]:
        """Replace all objects with these, as of that version."""
        self._floor = version
        self._tombstones.clear()
        gone = set(self._objects)
        deltas = []
        for raw in items:
            head = self._read(raw)
            if head is None:
                continue
            gone.discard(head.key)
            stored = self._objects.get(head.key)
            if stored is None or _identity(head_of(stored)) != _identity(head):
                deltas.append(self._put(head.key, raw, head.version))
        deltas += [self._remove(key) for key in gone]
        return [delta for delta in deltas if delta is not None]

    def put(self, raw: bytes, version: str) -> Delta | None:
        """Store an object that was added or modified at that version."""
        head = self._read(raw)
        if head is None or self._is_old(head.key, version):
            return None
        return self._put(head.key, raw, version)

    def remove(self, raw: bytes, version: str) -> Delta | None:
        """Remove an object that was deleted at that version."""
        head = self._read(raw)
        if head is None:
            return None
        stored = self._objects.get(head.key)
        if stored is not None and is_newer(head_of(stored).version, version):
            return None
        self._bury(head.key, version)
        return self._remove(head.key)

    def _read(self, raw: bytes) -> ObjectHead | None:
        try:
            return head_of(raw)
        except msgspec.MsgspecError as error:
            self._log.warning("object without identity ignored", error=str(error))
            return None

    def _is_old(self, key: ObjectKey, version: str) -> bool:
        stored = self._objects.get(key)
        known = self._tombstones.get(key, self._floor) if stored is None else head_of(stored).version
        return bool(known) and not is_newer(version, known)

    def _bury(self, key: ObjectKey, version: str) -> None:
        self._tombstones[key] = version
        self._tombstones.move_to_end(key)
        if len(self._tombstones) > TOMBSTONES_KEPT:
            self._tombstones.popitem(last=False)

    def _put(self, key: ObjectKey, raw: bytes, version: str) -> Delta | None:
        whole = without_managed_fields(raw)
        kept = whole if self._project is None else projected(whole, self._project)
        if kept is None:  # not kept by the projection
            self._bury(key, version)
            return self._remove(key)
        old = self._objects.get(key)
        self._objects[key] = kept
        self._tombstones.pop(key, None)
        return self._indexed(Delta(self._resource, key, old, kept))

    def _remove(self, key: ObjectKey) -> Delta | None:
        old = self._objects.pop(key, None)
        return None if old is None else self._indexed(Delta(self._resource, key, old, None))

    def _indexed(self, delta: Delta) -> Delta:
        if self._indexes:
            # Not kept in the delta: a snapshot makes one for each object, and decoded they are ten times as large.
            obj = None if delta.new_raw is None else decode(delta.new_raw, self._resource)
            for index in self._indexes.values():
                self._reindex(index, delta.key, obj)
        return delta

    def _reindex(self, index: _Index, key: ObjectKey, obj: Object | None) -> None:
        try:
            values = () if obj is None else tuple(index.function(obj))
        except Exception:  # noqa: BLE001 - an unexpected object must not stop the watch
            self._log.exception("index function failed on one object", key=str(key))
            values = ()
        index.set(key, values)


class _Index:
    """Keys by value, and values by key so that an entry can be removed.

    Most values have one key, which is stored as it is: a dictionary for each would be larger than the objects.
    """

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self._by_value: dict[str, ObjectKey | dict[ObjectKey, None]] = {}
        self._by_key: dict[ObjectKey, tuple[str, ...]] = {}

    def keys(self, value: str) -> tuple[ObjectKey, ...]:
        """Return the keys that have the value."""
        found = self._by_value.get(value, ())
        return (found,) if isinstance(found, ObjectKey) else tuple(found)

    def set(self, key: ObjectKey, values: tuple[str, ...]) -> None:
        """Set the values of the key; none removes it."""
        before = self._by_key.get(key, ())
        if before == values:
            return
        for value in before:
            self._remove(value, key)
        self._by_key.pop(key, None)
        if values:
            self._by_key[key] = values = tuple(dict.fromkeys(values))
        for value in values:
            self._add(value, key)

    def _add(self, value: str, key: ObjectKey) -> None:
        found = self._by_value.setdefault(value, key)
        if isinstance(found, dict):
            found[key] = None
        elif found != key:
            self._by_value[value] = {found: None, key: None}

    def _remove(self, value: str, key: ObjectKey) -> None:
        found = self._by_value[value]
        if isinstance(found, dict):
            found.pop(key, None)
        if not isinstance(found, dict) or not found:
            del self._by_value[value]


def _identity(head: ObjectHead) -> tuple[str, str]:
    return head.metadata.uid, head.version
