"""What one watch has told about one part of one kind."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import structlog

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.selectors import LabelSelector, parse_label_selector
from watchword.kube.watch import Change, Fact, Snapshot
from watchword.runtime.errors import Halted
from watchword.runtime.records import (
    Delta,
    Head,
    Projection,
    decode,
    head_of,
    is_newer,
    projected,
    without_managed_fields,
)

Listener: TypeAlias = Callable[[Delta], None]
IndexFunction: TypeAlias = Callable[[Object], Iterable[str]]
TOMBSTONES_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a kind are followed; everything when nothing is said."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def covers(self, namespace: str) -> bool:
        """Whether objects of that namespace (empty: of all) are followed."""
        return self.namespace in ("", namespace)


Feed: TypeAlias = Callable[[Resource, Scope], AsyncGenerator[Fact, None]]


class Informer:
    """The objects of one scope as the last watch event left them; tells listeners what changed.

    Listeners are called after the store has changed and must not block. Each object is told once for
    each version, however often the server repeats it.
    """

    def __init__(self, resource: Resource, scope: Scope, *, project: Projection | None = None) -> None:
        self.resource = resource
        self.scope = scope
        self.project = project
        self.version = ""
        self.last_contact: float | None = None
        self._selector: LabelSelector = parse_label_selector(scope.labels)
        self._objects: dict[ObjectKey, bytes] = {}
        self._indexes: dict[str, _Index] = {}
        self._listeners: list[Listener] = []
        self._floor = ""
        self._tombstones: OrderedDict[ObjectKey, str] = OrderedDict()
        self._synced = asyncio.Event()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._log: Any = structlog.get_logger("watchword.cache").bind(resource=resource.group_resource)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def synced(self) -> bool:
        """Whether the whole state has been told at least once."""
        return self._synced.is_set()

    async def sync(self) -> None:
        """Wait until the whole state has been told."""
        await self._synced.wait()

    def age(self) -> float | None:
        """Return the seconds since the server last said anything, None when it never did."""
        return None if self.last_contact is None else asyncio.get_running_loop().time() - self.last_contact

    async def wait_for(self, version: str) -> None:
        """Wait until everything up to that resourceVersion has been told."""
        if not self.version or is_newer(version, self.version):
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append((version, waiter))
            await waiter

    def get(self, key: ObjectKey) -> Object | None:
        """Return one object, freshly decoded."""
        raw = self._objects.get(key)
        return None if raw is None else decode(raw, self.resource)

    def select(self, *, namespace: str = "", labels: str = "") -> Iterator[tuple[ObjectKey, Object]]:
        """Yield the objects that match, in no order."""
        selector = parse_label_selector(labels)
        for key, raw in self._objects.items():
            if namespace and key.namespace != namespace:
                continue
            if not labels or selector.matches(head_of(raw).labels):
                yield key, decode(raw, self.resource)

    def keys(self) -> Iterable[ObjectKey]:
        """Return the keys of all objects."""
        return self._objects.keys()

    def has_index(self, name: str) -> bool:
        """Whether an index of that name exists."""
        return name in self._indexes

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Keep objects findable by the values that a function gives for them."""
        index = self._indexes[name] = _Index(function)
        for key, raw in self._objects.items():
            self._reindex(index, key, raw)

    def indexed(self, name: str, value: str) -> Iterable[ObjectKey]:
        """Return the keys of the objects for which the index function gave that value."""
        return tuple(self._indexes[name].by_value.get(value, ()))

    def listen(self, listener: Listener) -> None:
        """Tell a listener of every object there is, and from now on of every change."""
        self._listeners.append(listener)
        for key, raw in list(self._objects.items()):
            self._tell(listener, Delta(self.resource, key, None, raw))

    async def run(self, feed: Feed) -> None:
        """Follow the feed for ever; raises `Halted` if it ends."""
        async with aclosing(feed(self.resource, self.scope)) as facts:
            async for fact in facts:
                self.take(fact)
        raise Halted(f"the watch of {self.resource.group_resource} ended")

    def take(self, fact: Fact) -> None:
        """Let one fact change the store."""
        self.last_contact = asyncio.get_running_loop().time()
        if isinstance(fact, Snapshot):
            self._replace(fact)
        elif isinstance(fact, Change):
            self._change(fact)
        elif not is_newer(fact.resource_version, self.version):  # a heartbeat that says nothing new
            return
        self.version = fact.resource_version
        self._release()

    def fold(self, raw: bytes, head: Head) -> None:
        """Take over the server's answer to our own write, so that nobody reads what it replaced.

        Only where the watch would surely tell the same; the watch's own word, when newer, stands.
        """
        if not self.synced or self.scope.fields or not self.scope.covers(head.metadata.namespace):
            return
        if self._selector.matches(head.labels) and not self._is_stale(head.key, head.version):
            self._put(head.key, raw)

    def _replace(self, snapshot: Snapshot) -> None:
        self._floor = snapshot.resource_version
        self._tombstones.clear()
        gone = set(self._objects)
        for raw in snapshot.items:
            head = self._read(raw)
            if head is None:
                continue
            gone.discard(head.key)
            stored = self._objects.get(head.key)
            if stored is None or _identity(head_of(stored)) != _identity(head):
                self._put(head.key, raw)
        for key in gone:
            self._remove(key)
        self._synced.set()

    def _change(self, change: Change) -> None:
        head = self._read(change.raw)
        if head is None:
            return
        stored = self._objects.get(head.key)
        if change.type != "DELETED":
            if not self._is_stale(head.key, change.resource_version):
                self._put(head.key, change.raw)
        elif stored is None or not is_newer(head_of(stored).version, change.resource_version):
            self._bury(head.key, change.resource_version)
            self._remove(head.key)

    def _read(self, raw: bytes) -> Head | None:
        try:
            return head_of(raw)
        except msgspec.MsgspecError as error:
            self._log.warning("object without identity ignored", error=str(error))
            return None

    def _is_stale(self, key: ObjectKey, version: str) -> bool:
        stored = self._objects.get(key)
        known = self._tombstones.get(key, self._floor) if stored is None else head_of(stored).version
        return bool(known) and not is_newer(version, known)

    def _bury(self, key: ObjectKey, version: str) -> None:
        self._tombstones[key] = version
        self._tombstones.move_to_end(key)
        if len(self._tombstones) > TOMBSTONES_KEPT:
            self._tombstones.popitem(last=False)

    def _put(self, key: ObjectKey, raw: bytes) -> None:
        kept: bytes | None = without_managed_fields(raw)
        if self.project is not None and kept is not None:
            kept = projected(kept, self.project)
        if kept is None:
            self._bury(key, head_of(raw).version)
            self._remove(key)
            return
        old = self._objects.get(key)
        self._objects[key] = kept
        self._tombstones.pop(key, None)
        self._announce(Delta(self.resource, key, old, kept))

    def _remove(self, key: ObjectKey) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            self._announce(Delta(self.resource, key, old, None))

    def _announce(self, delta: Delta) -> None:
        for index in self._indexes.values():
            self._reindex(index, delta.key, delta.new_raw)
        for listener in self._listeners:
            self._tell(listener, delta)

    def _tell(self, listener: Listener, delta: Delta) -> None:
        try:
            listener(delta)
        except Exception:  # noqa: BLE001 - one object that nobody foresaw must not stop the watch
            self._log.exception("listener failed on one object", key=str(delta.key))

    def _reindex(self, index: _Index, key: ObjectKey, raw: bytes | None) -> None:
        try:
            values = () if raw is None else tuple(index.function(decode(raw, self.resource)))
        except Exception:  # noqa: BLE001 - same
            self._log.exception("index function failed on one object", key=str(key))
            values = ()
        index.set(key, values)

    def _release(self) -> None:
        held = []
        for version, waiter in self._waiting:
            if is_newer(version, self.version):
                held.append((version, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiting = held


class _Index:
    """Keys by value, and values by key so that a change can be taken back."""

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self.by_value: dict[str, dict[ObjectKey, None]] = {}
        self._by_key: dict[ObjectKey, tuple[str, ...]] = {}

    def set(self, key: ObjectKey, values: tuple[str, ...]) -> None:
        """Make these the values of the key; none removes it."""
        for value in self._by_key.pop(key, ()):
            keys = self.by_value[value]
            keys.pop(key, None)
            if not keys:
                del self.by_value[value]
        if values:
            self._by_key[key] = values = tuple(dict.fromkeys(values))
        for value in values:
            self.by_value.setdefault(value, {})[key] = None


def _identity(head: Head) -> tuple[str, str]:
    return head.metadata.uid, head.version
