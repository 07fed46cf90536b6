"""Follows the objects that works have applied, so that drift and feedback are seen without asking."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing, suppress
from random import Random

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.json import trimmed
from watchword.api.meta import Object, ObjectKey, ObjectRef, Resource
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, MethodNotAllowed, NotFound
from watchword.kube.watch import ObjectChange, Snapshot, WatchOptions, WatchUpdate, list_and_watch
from watchword.runtime.informer import WatchScope
from watchword.runtime.raw_objects import decode, head_of, is_newer, without_managed_fields
from watchword.runtime.reconcile import TriggerSource

MAX_WATCHES_BY_NAME = 3
"""Up to so many objects of a kind in a namespace are followed one by one, more through their collection."""

MAX_WATCHES = 96
"""Each is a connection; what lies beyond is asked for from time to time instead."""

RETRY_SECONDS = 600.0
"""Seconds after which a watch that was refused is tried again: rights and kinds may come."""

SYNC_TIMEOUT = 5.0
"""Seconds that a reader waits for a watch that has just begun."""

WatchKey = tuple[Resource, WatchScope]


def choose_watches(targets: Iterable[ObjectRef], *, most: int = MAX_WATCHES) -> dict[WatchKey, frozenset[ObjectKey]]:
    """Choose the watches for objects: few and narrow ones, at most `most`."""
    groups: dict[tuple[Resource, str], set[ObjectKey]] = {}
    for target in targets:
        groups.setdefault((target.resource, target.key.namespace), set()).add(target.key)
    chosen: dict[WatchKey, frozenset[ObjectKey]] = {}
    for (resource, namespace), keys in sorted(groups.items(), key=lambda item: item[0][0].path(namespace=item[0][1])):
        names = sorted(keys)
        narrow = {(resource, WatchScope(namespace, fields=f"metadata.name={k.name}")): frozenset({k}) for k in names}
        wide = {(resource, WatchScope(namespace)): frozenset(keys)}
        wanted = narrow if len(keys) <= MAX_WATCHES_BY_NAME else wide
        if len(chosen) + len(wanted) <= most:
            chosen |= wanted
    return chosen


class _Unwatchable(Exception):
    """The server refuses to list or watch these objects."""


class _Watch(Struct):
    """What one watch has synced about the objects that are wanted."""

    keys: frozenset[ObjectKey]
    objects: dict[ObjectKey, bytes] = field(default_factory=dict)
    versions: dict[ObjectKey, str] = field(default_factory=dict)  # known up to here, present or gone
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # synced everything once, or refused
    synced: bool = False
    task: asyncio.Task[None] | None = None

    def handle(self, fact: WatchUpdate) -> list[ObjectKey]:
        """Store what the watch delivered; return the keys of changed objects."""
        if isinstance(fact, Snapshot):
            return self._replace(fact)
        if isinstance(fact, ObjectChange):
            key = head_of(fact.raw).key
            raw = None if fact.type == "DELETED" else fact.raw
            return [key] if self.put(key, raw, fact.resource_version) else []
        return []

    def put(self, key: ObjectKey, raw: bytes | None, version: str) -> bool:
        """Store one object, None for a deleted one; return whether it changed."""
        known = self.versions.get(key)
        if key not in self.keys or (known is not None and not is_newer(version, known)):
            return False
        self.versions[key] = version
        if raw is None:
            return self.objects.pop(key, None) is not None
        self.objects[key] = without_managed_fields(raw)
        return True

    def _replace(self, snapshot: Snapshot) -> list[ObjectKey]:
        """Replace all objects without comparing versions: later changes are delivered again."""
        found = {key: raw for raw in snapshot.items if (key := head_of(raw).key) in self.keys}
        before, self.versions, self.objects = self.versions, {}, {}
        for key in sorted(self.keys):
            raw = found.get(key)
            self.put(key, raw, snapshot.resource_version if raw is None else head_of(raw).version)
        return [key for key in self.versions if key in self.objects and self.versions[key] != before.get(key)] + [
            key for key in before if key in self.keys and key not in self.objects
        ]


class ObjectWatches(Struct):
    """Caches single objects from watches, which `run` follows until cancelled."""

    client: Client
    random: Random
    most: int = MAX_WATCHES
    options: WatchOptions = field(default_factory=WatchOptions)
    _wanted: dict[tuple[TriggerSource, ObjectKey], frozenset[ObjectRef]] = field(default_factory=dict)
    _watches: dict[WatchKey, _Watch] = field(default_factory=dict)
    _of: dict[ObjectRef, _Watch] = field(default_factory=dict)
    _refused: dict[WatchKey, float] = field(default_factory=dict)
    _group: asyncio.TaskGroup | None = None

    def watch_objects(self, trigger_source: TriggerSource, key: ObjectKey, targets: frozenset[ObjectRef]) -> None:
        """Follow these objects on behalf of a key, and enqueue for it when one of them changes."""
        if self._wanted.get((trigger_source, key), frozenset()) != targets or self._is_retry_due():
            self._wanted.pop((trigger_source, key), None)
            if targets:
                self._wanted[trigger_source, key] = targets
            self._update_watches()

    def forget(self, trigger_source: TriggerSource, key: ObjectKey) -> None:
        self.watch_objects(trigger_source, key, frozenset())

    def has_synced(self, target: ObjectRef) -> bool:
        """Whether `get` knows about an object."""
        watch = self._of.get(target)
        return watch is not None and watch.synced and target.key in watch.versions

    def get(self, target: ObjectRef) -> Object | None:
        """Return an object as last seen, None when it does not exist; ask `has_synced` first."""
        raw = self._of[target].objects.get(target.key)
        return None if raw is None else decode(raw, target.resource)

    def store(self, target: ObjectRef, obj: Object) -> None:
        """Take over a server's answer, so that no reconcile reads what it replaced."""
        watch = self._of.get(target)
        if watch is not None:
            watch.put(target.key, trimmed(orjson.dumps(obj)), str(obj["metadata"].get("resourceVersion") or ""))

    async def wait_for_sync(self, targets: Iterable[ObjectRef]) -> None:
        """Wait, not for long, until what has just begun to be followed has been synced."""
        begun = {id(watch): watch for target in targets if (watch := self._of.get(target)) is not None}
        waiting = [watch.ready.wait() for watch in begun.values() if watch.task is not None and not watch.synced]
        if waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(SYNC_TIMEOUT):
                    await asyncio.gather(*waiting)

    async def run(self) -> None:
        """Follow whatever is wanted, for ever."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for watch_key, watch in self._watches.items():
                    self._start(watch_key, watch)
                await asyncio.Event().wait()
            finally:
                self._group = None

    def _update_watches(self) -> None:
        targets = {target for wanted in self._wanted.values() for target in wanted}
        plan = choose_watches(targets, most=self.most)
        now = asyncio.get_running_loop().time()
        self._refused = {watch_key: until for watch_key, until in self._refused.items() if until > now}
        for watch_key in [key for key in self._watches if key not in plan]:
            self._stop(self._watches.pop(watch_key))
        for watch_key in [key for key in plan if key not in self._refused]:
            watch = self._watches.setdefault(watch_key, _Watch(plan[watch_key]))
            watch.keys = plan[watch_key]
            if watch.task is None:
                self._start(watch_key, watch)
        self._of = {
            ObjectRef(resource, key): watch for (resource, _), watch in self._watches.items() for key in watch.keys
        }

    def _start(self, watch_key: WatchKey, watch: _Watch) -> None:
        if self._group is not None:
            name = f"watch applied {watch_key[0].group_resource}"
            watch.task = self._group.create_task(self._follow(watch_key, watch), name=name)

    @staticmethod
    def _stop(watch: _Watch) -> None:
        if watch.task is not None:
            watch.task.cancel()
        watch.ready.set()

    async def _follow(self, watch_key: WatchKey, watch: _Watch) -> None:
        resource, scope = watch_key
        options = replace(self.options, random=self.random, on_error=_give_up_when_refused)
        feed = list_and_watch(
            self.client, resource, namespace=scope.namespace, labels=scope.labels, fields=scope.fields, options=options
        )
        with suppress(_Unwatchable):
            async with aclosing(feed) as facts:
                async for fact in facts:
                    changed = watch.handle(fact)
                    watch.synced = True
                    watch.ready.set()
                    for key in changed:
                        self._notify(ObjectRef(resource, key))
        self._refused[watch_key] = asyncio.get_running_loop().time() + RETRY_SECONDS
        if self._watches.get(watch_key) is watch:
            del self._watches[watch_key]
        for target in [target for target, its in self._of.items() if its is watch]:
            del self._of[target]
        watch.ready.set()

    def _notify(self, target: ObjectRef) -> None:
        for (trigger_source, key), targets in self._wanted.items():
            if target in targets:
                trigger_source.enqueue(key)

    def _is_retry_due(self) -> bool:
        now = asyncio.get_running_loop().time()
        return any(until <= now for until in self._refused.values())


def _give_up_when_refused(error: KubeError) -> None:
    if isinstance(error, Forbidden | NotFound | MethodNotAllowed):
        raise _Unwatchable from error
