"""Stores the objects of one watch, and ignores outdated events."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import structlog

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.selectors import parse_label_selector
from watchword.kube.packed_objects import PackedObjects
from watchword.runtime import raw_objects

IndexFunction: TypeAlias = Callable[[Object], Iterable[str]]
"""Returns the values of an object from its content alone: those of its old version are removed when it changes."""

TOMBSTONES_KEPT = 1024
MUTATION_DETECTOR = "WATCHWORD_CACHE_MUTATION_DETECTOR"
"""The environment variable that, when "true", makes every read compare a shared object with what is stored."""

DECODED_KEPT = 32  # handlers and a reconcile read the same objects several times


class InformerStore:
    """Objects by key. Every effective change is returned as a `Delta`; an outdated event changes nothing.

    An event is outdated when that version of the object or a later one is stored, when the object was deleted
    later, or when it is absent and the last snapshot is newer.
    """

    def __init__(self, resource: Resource, *, project: raw_objects.Projection | None = None) -> None:
        self._resource = resource
        self._project = project
        self._objects = PackedObjects()
        self._decoded: dict[ObjectKey, Object] = {}
        self._compared: dict[ObjectKey, tuple[Object, Object | None]] = {}  # what was shared, and what was stored
        self._detects_mutations = os.environ.get(MUTATION_DETECTOR) == "true"
        self._indexes: dict[str, _Index] = {}
        self._floor = ""
        self._tombstones: OrderedDict[ObjectKey, str] = OrderedDict()
        self._log: Any = structlog.get_logger("watchword.cache").bind(resource=resource.group_resource)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: ObjectKey) -> Object | None:
        """Return one object, which must not be changed: other readers get the same one."""
        found = self._shared(key)
        if found is not None:
            return found
        raw = self._objects.get(key)
        return None if raw is None else self._remember(key, raw_objects.decode(raw, self._resource))

    def _shared(self, key: ObjectKey) -> Object | None:
        """Return the object that earlier readers got, if it is still at hand."""
        found = self._decoded.get(key)
        if found is not None and self._detects_mutations:
            shared, stored = self._compared.get(key, (None, None))
            if shared is not found:  # each version is decoded once: 5 % of the simulation's processor time
                raw = self._objects.get(key)
                stored = None if raw is None else raw_objects.decode(raw, self._resource)
                self._compared[key] = found, stored
            if found != stored:
                raise AssertionError(
                    f"a reader changed {self._resource.group_resource} {key} in the cache: copy it first"
                )
        return found

    def _remember(self, key: ObjectKey, obj: Object) -> Object:
        if len(self._decoded) >= DECODED_KEPT:
            oldest = next(iter(self._decoded))
            self._shared(oldest)
            del self._decoded[oldest]
        self._decoded[key] = obj
        return obj

    def select(self, *, namespace: str = "", labels: str = "") -> Iterator[tuple[ObjectKey, Object]]:
        """Yield the matching objects, in no order."""
        selector = parse_label_selector(labels)
        for key, raw in self._objects.items(namespace=namespace):
            if not labels or selector.matches(raw_objects.head_of(raw).labels):
                yield key, self._shared(key) or raw_objects.decode(raw, self._resource)

    def object_keys(self) -> list[ObjectKey]:
        return self._objects.object_keys()

    def labels(self) -> Iterator[Mapping[str, str]]:
        for raw in self._objects:
            yield raw_objects.head_of(raw).labels

    def everything(self) -> Iterator[raw_objects.Delta]:
        for key in self._objects.object_keys():
            yield raw_objects.Delta(self._resource, key, None, self._objects.get(key))

    def add_index(self, name: str, function: IndexFunction) -> None:
        index = self._indexes[name] = _Index(function)
        for delta in self.everything():
            self._reindex(index, delta)

    def indexed(self, name: str, value: str) -> Collection[ObjectKey] | None:
        """Return a view of the keys for which the index function returned that value; None: there is no such index."""
        index = self._indexes.get(name)
        return None if index is None else index.keys(value)

    def reduce(self, raw: bytes) -> bytes | None:
        """Return what is stored of an object; None when it is not stored."""
        whole = raw_objects.without_managed_fields(raw)
        return whole if self._project is None else raw_objects.projected(whole, self._project)

    def replace(self, items: Iterable[bytes], version: str, *, reduced: bool = False) -> Iterator[raw_objects.Delta]:
        """Replace all objects with these, as of that version; yields what changed, decoded one after the other.

        `reduced`: the objects are what `reduce` returned for them.
        """
        self._floor = version
        self._tombstones.clear()
        if reduced and isinstance(items, PackedObjects) and not self._objects:
            yield from self._adopt(items)
            return
        gone = set(self._objects.object_keys())
        changed: list[tuple[ObjectKey, bytes | None]] = []
        for raw in items:
            head = self._read(raw)
            if head is None:
                continue
            gone.discard(head.key)
            stored = self._objects.get(head.key)
            if stored is None or _identity(raw_objects.head_of(stored)) != _identity(head):
                delta = self._put(head, raw if reduced else self.reduce(raw), head.version)
                changed += [] if delta is None else [(delta.key, delta.old_raw)]
        deltas = (self._remove(key) for key in gone)
        changed += [(delta.key, delta.old_raw) for delta in deltas if delta is not None]
        for key, old in changed:
            yield self._delta(key, old)

    def _adopt(self, items: PackedObjects) -> Iterator[raw_objects.Delta]:
        """Store the first snapshot as it was collected, instead of compressing every object once more."""
        self._objects = items
        for key in items.object_keys():
            delta = self._delta(key, None)
            if delta.new_raw is None or self._read(delta.new_raw) is None:
                self._objects.remove(delta.key)
                self._decoded.pop(delta.key, None)
            else:
                yield self._indexed(delta)

    def put(self, raw: bytes, version: str) -> raw_objects.Delta | None:
        head = self._read(raw)
        if head is None:
            return None
        stored = self._objects.get(head.key)
        known = self._tombstones.get(head.key, self._floor) if stored is None else raw_objects.head_of(stored).version
        is_old = bool(known) and not raw_objects.is_newer(version, known)
        return None if is_old else self._put(head, self.reduce(raw), version)

    def remove(self, raw: bytes, version: str) -> raw_objects.Delta | None:
        head = self._read(raw)
        if head is None:
            return None
        stored = self._objects.get(head.key)
        if stored is not None and raw_objects.is_newer(raw_objects.head_of(stored).version, version):
            return None
        self._bury(head.key, version)
        return self._remove(head.key)

    def _delta(self, key: ObjectKey, old: bytes | None) -> raw_objects.Delta:
        delta = raw_objects.Delta(self._resource, key, old, self._objects.get(key))
        if delta.new is not None:
            self._remember(key, delta.new)
        return delta

    def _read(self, raw: bytes) -> raw_objects.ObjectHead | None:
        try:
            return raw_objects.head_of(raw)
        except msgspec.MsgspecError as error:
            self._log.warning("object without identity ignored", error=str(error))
            return None

    def _bury(self, key: ObjectKey, version: str) -> None:
        self._tombstones[key] = version
        self._tombstones.move_to_end(key)
        if len(self._tombstones) > TOMBSTONES_KEPT:
            self._tombstones.popitem(last=False)

    def _put(self, head: raw_objects.ObjectHead, kept: bytes | None, version: str) -> raw_objects.Delta | None:
        key = head.key
        if kept is None:  # not kept by the projection
            self._bury(key, version)
            return self._remove(key)
        old = self._objects.get(key)
        self._objects.put(key, kept)
        self._decoded.pop(key, None)
        self._tombstones.pop(key, None)
        return self._indexed(raw_objects.Delta(self._resource, key, old, kept))

    def _remove(self, key: ObjectKey) -> raw_objects.Delta | None:
        old = self._objects.get(key)
        self._objects.remove(key)
        self._decoded.pop(key, None)
        return None if old is None else self._indexed(raw_objects.Delta(self._resource, key, old, None))

    def _indexed(self, delta: raw_objects.Delta) -> raw_objects.Delta:
        for index in self._indexes.values():
            self._reindex(index, delta)
        return delta

    def _reindex(self, index: _Index, delta: raw_objects.Delta) -> None:
        before, now = (self._values(index, delta.key, obj) for obj in (delta.old, delta.new))
        index.change(delta.key, before, now)

    def _values(self, index: _Index, key: ObjectKey, obj: Object | None) -> tuple[str, ...]:
        try:
            return () if obj is None else tuple(dict.fromkeys(index.function(obj)))
        except Exception:  # noqa: BLE001 - an unexpected object must not stop the watch
            self._log.exception("index function failed on one object", key=str(key))
            return ()


class _Index:
    """Keys by value.

    Most values have one key, which is stored as it is: a dictionary for each would be larger than the objects.
    """

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self._by_value: dict[str, ObjectKey | dict[ObjectKey, None]] = {}

    def keys(self, value: str) -> Collection[ObjectKey]:
        found = self._by_value.get(value, ())
        return (found,) if isinstance(found, ObjectKey) else found

    def change(self, key: ObjectKey, before: tuple[str, ...], now: tuple[str, ...]) -> None:
        """Replace the values of the key; none removes it."""
        if before == now:
            return
        for value in before:
            self._remove(value, key)
        for value in now:
            self._add(value, key)

    def _add(self, value: str, key: ObjectKey) -> None:
        found = self._by_value.setdefault(value, key)
        if isinstance(found, dict):
            found[key] = None
        elif found != key:
            self._by_value[value] = {found: None, key: None}

    def _remove(self, value: str, key: ObjectKey) -> None:
        found = self._by_value.get(value)
        if isinstance(found, dict):
            found.pop(key, None)
        if found in (key, {}):
            del self._by_value[value]


def _identity(head: raw_objects.ObjectHead) -> tuple[str, str]:
    return head.metadata.uid, head.version
