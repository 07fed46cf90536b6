"""The cache that all controllers of a process share: one informer store per watched kind and scope."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

import msgspec
import structlog
from msgspec.structs import replace

from watchword.api.json import limit_depth
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.watch import WatchOptions, list_and_watch
from watchword.runtime.errors import CacheError
from watchword.runtime.informer import DeltaHandler, Informer, Reduction, WatchScope, WatchSource
from watchword.runtime.informer_store import IndexFunction
from watchword.runtime.raw_objects import Projection, head_of


class Cache:
    """The watched objects of one API server; a `Reader`.

    Register informers before `run`, or while it runs. Reading a kind without an informer raises `CacheError`,
    because an empty result would be wrong. What the cache `beside` it watches already is not watched twice.
    """

    def __init__(self, feed: WatchSource, *, beside: Cache | None = None) -> None:
        self._feed = feed
        self._beside = beside
        self._informers: dict[Resource, dict[WatchScope, Informer]] = {}
        self._handlers: dict[Resource, list[DeltaHandler]] = {}
        self._indexes: dict[Resource, dict[str, IndexFunction]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[Informer, asyncio.Task[None]] = {}

    @classmethod
    def of(cls, client: Client, options: WatchOptions | None = None, *, beside: Cache | None = None) -> Self:
        return cls(watch_source(client, options or WatchOptions()), beside=beside)

    def informer(
        self, resource: Resource, scope: WatchScope | None = None, *, project: Projection | None = None
    ) -> Informer:
        """Return the informer of a kind and scope; the same one for every caller."""
        scope = scope or WatchScope()
        informers = self._informers.setdefault(resource, {})
        found = informers.get(scope)
        if found is None:
            found = informers[scope] = self._find_shared(resource, scope) or Informer(resource, scope, project=project)
            self._start(found)
            for name, function in self._indexes.get(resource, {}).items():
                found.store.add_index(name, function)
            found.add_handler(*self._handlers.get(resource, ()))
        if project is not None and found.project is not project:
            raise CacheError(f"{resource.group_resource} is already followed with another projection: agree on one")
        return found

    def expect(self, resource: Resource) -> None:
        """Register a kind without watching it yet: informers for parts of it are added later."""
        self._informers.setdefault(resource, {})

    def drop(self, informer: Informer) -> None:
        """Stop watching a part of a kind: its handlers are not called any more."""
        self._informers[informer.resource].pop(informer.scope)
        task = self._tasks.pop(informer, None)
        if task is not None:
            task.cancel()

    def informers(self, resource: Resource | None = None) -> list[Informer]:
        kinds = self._informers.values() if resource is None else [self._informers.get(resource, {})]
        return [informer for scopes in kinds for informer in scopes.values()]

    def add_handler(self, resource: Resource, *handlers: DeltaHandler) -> None:
        """Call handlers for every object of a kind and for every change, in every watched part of it."""
        self.watch(resource)
        self._handlers.setdefault(resource, []).extend(handlers)
        for informer in self.informers(resource):
            informer.add_handler(*handlers)

    def watch(self, resource: Resource) -> None:
        """Watch a kind as a whole, unless a part of it is watched already."""
        if resource not in self._informers:
            self.informer(resource)

    def index(self, resource: Resource, name: str, function: IndexFunction) -> None:
        """Index the objects of a kind, in every watched part of it, by the values that a function returns for them."""
        self._indexes.setdefault(resource, {})[name] = function
        for informer in self.informers(resource) or [self.informer(resource)]:
            informer.store.add_index(name, function)

    async def run(self) -> None:
        """Watch everything until cancelled; may be run again, and then starts from a new list."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for informer in self.informers():
                    self._start(informer)
                await asyncio.Event().wait()
        finally:
            self._group = None

    async def sync(self) -> None:
        for informer in self.informers():
            await informer.sync()

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self.informers())

    def get(self, resource: Resource, key: ObjectKey) -> Object | None:
        is_covered = False
        for informer in self._informers.get(resource, {}).values():
            found = informer.store.get(key)
            if found is not None:
                return found
            is_covered = is_covered or informer.scope.covers(key.namespace)
        if not is_covered:
            self._covering(resource, key.namespace)  # what nothing watches is not known to be absent
        return None

    def list(self, resource: Resource, *, namespace: str = "", labels: str = "") -> Sequence[Object]:
        found: dict[ObjectKey, Object] = {}
        for informer in self._covering(resource, namespace):
            found.update(informer.store.select(namespace=namespace, labels=labels))
        return [found[key] for key in sorted(found)]

    def keys(self, resource: Resource) -> Sequence[ObjectKey]:
        """Return the keys of all objects of a kind, in no order; decodes none."""
        return list({key: None for informer in self._covering(resource, "") for key in informer.store.object_keys()})

    def labels(self, resource: Resource) -> Iterator[Mapping[str, str]]:
        """Yield the labels of every object of a kind, one after the other and in no order; decodes nothing else."""
        for informer in self._covering(resource, ""):
            yield from informer.store.labels()

    def by_index(self, resource: Resource, index: str, value: str) -> Sequence[Object]:
        found = (self.get(resource, key) for key in self.index_keys(resource, index, value))
        return [obj for obj in found if obj is not None]

    def index_keys(self, resource: Resource, index: str, value: str) -> Sequence[ObjectKey]:
        """Return the keys of the objects whose index function gave that value, in order; decodes no object."""
        return sorted(set().union(*self._indexed(resource, index, value)))

    def index_count(self, resource: Resource, index: str, value: str) -> int:
        """Return how many objects have that value, without reading them; one of two informers counts twice."""
        return sum(map(len, self._indexed(resource, index, value)))

    def _indexed(self, resource: Resource, index: str, value: str) -> Iterator[Collection[ObjectKey]]:
        for informer in self._covering(resource, ""):
            keys = informer.store.indexed(index, value)
            if keys is None:
                raise CacheError(f"{resource.group_resource} has no index {index!r}: add it before reading by it")
            yield keys

    async def wait_for(self, resource: Resource, resource_version: str) -> None:
        for informer in self._covering(resource, ""):
            await informer.wait_for(resource_version)

    def observe_write(self, raw: bytes) -> None:
        """Store the server's response to our own write; anything but a stored object is ignored."""
        raw = limit_depth(raw)
        try:
            head = head_of(raw)
        except msgspec.MsgspecError:
            return
        if not head.version or not head.metadata.uid:
            return
        for resource, informers in self._informers.items():
            if (resource.api_version, resource.kind) == (head.api_version, head.kind):
                for informer in informers.values():
                    informer.observe_write(raw, head)

    def _covering(self, resource: Resource, namespace: str) -> Sequence[Informer]:
        informers = self.informers(resource)
        covering = informers if not namespace else [one for one in informers if one.scope.covers(namespace)]
        if not covering:
            where = f" in namespace {namespace!r}" if namespace and informers else ""
            raise CacheError(f"nothing watches {resource.group_resource}{where}: ask the cache for an informer first")
        return covering

    def _find_shared(self, resource: Resource, scope: WatchScope) -> Informer | None:
        """Return the informer of a cache beside this one, or beside that one, and so on."""
        beside = self._beside
        while beside is not None:
            for informer in beside.informers(resource):
                if informer.scope == scope:
                    return informer
            beside = beside._beside  # noqa: SLF001 - of another cache
        return None

    def _start(self, informer: Informer) -> None:
        if self._group is not None and self._find_shared(informer.resource, informer.scope) is not informer:
            name = f"watch {informer.resource.group_resource}"
            self._tasks[informer] = self._group.create_task(informer.run(self._feed), name=name)


def watch_source(client: Client, options: WatchOptions) -> WatchSource:
    """Return the event source that watches through a client and logs its errors."""
    log: Any = structlog.get_logger("watchword.cache")

    def feed(resource: Resource, scope: WatchScope, reduce: Reduction) -> Any:
        def report(error: KubeError) -> None:
            log.warning("watch interrupted", resource=resource.group_resource, error=str(error))
            options.on_error(error)

        return list_and_watch(
            client,
            resource,
            namespace=scope.namespace,
            labels=scope.labels,
            fields=scope.fields,
            options=replace(options, on_error=report, reduce=reduce),
        )

    return feed
