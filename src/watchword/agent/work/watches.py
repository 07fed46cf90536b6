"""Follows the objects that works have applied, so that drift and feedback are seen without asking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from random import Random

import orjson

from watchword.agent.work.manifests import Target
from watchword.api.json import trimmed
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, MethodNotAllowed, NotFound
from watchword.kube.watch import Change, Fact, FollowOptions, Snapshot, follow
from watchword.runtime.informer import Scope
from watchword.runtime.reconcile import Bell
from watchword.runtime.records import head_of, is_newer, without_managed_fields

BY_NAME = 3
"""Up to so many objects of a kind in a namespace are followed one by one, more through their collection."""

MOST_WATCHES = 96
"""Each is a connection; what lies beyond is asked for from time to time instead."""

TRY_AGAIN = 600.0
"""Seconds after which a watch that was refused is tried again: rights and kinds may come."""

PATIENCE = 5.0
"""Seconds that a reader waits for a watch that has just begun."""

Watched = tuple[Resource, Scope]


def choose_watches(targets: Iterable[Target], *, most: int = MOST_WATCHES) -> dict[Watched, frozenset[ObjectKey]]:
    """Choose how to follow objects: few and narrow watches, at most so many of them."""
    groups: dict[tuple[Resource, str], set[ObjectKey]] = {}
    for target in targets:
        groups.setdefault((target.resource, target.key.namespace), set()).add(target.key)
    chosen: dict[Watched, frozenset[ObjectKey]] = {}
    for (resource, namespace), keys in sorted(groups.items(), key=lambda item: _order(item[0])):
        narrow = {(resource, Scope(namespace, fields=f"metadata.name={k.name}")): frozenset({k}) for k in keys}
        wide = {(resource, Scope(namespace)): frozenset(keys)}
        wanted = narrow if len(keys) <= BY_NAME else wide
        if len(chosen) + len(wanted) <= most:
            chosen |= wanted
    return chosen


def _order(group: tuple[Resource, str]) -> tuple[str, ...]:
    resource, namespace = group
    return resource.group, resource.version, resource.plural, namespace


class _Unwatchable(Exception):
    """The server will not let us follow this."""


@dataclass
class _Watch:
    """What one watch has told about the objects that are wanted."""

    keys: frozenset[ObjectKey]
    objects: dict[ObjectKey, bytes] = field(default_factory=dict)
    versions: dict[ObjectKey, str] = field(default_factory=dict)  # known up to here, present or gone
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # told everything once, or refused
    told: bool = False
    task: asyncio.Task[None] | None = None

    def take(self, fact: Fact) -> list[ObjectKey]:
        """Learn from the server; return what changed."""
        if isinstance(fact, Snapshot):
            return self._replace(fact)
        if isinstance(fact, Change):
            key = head_of(fact.raw).key
            raw = None if fact.type == "DELETED" else fact.raw
            return [key] if self.put(key, raw, fact.resource_version) else []
        return []

    def put(self, key: ObjectKey, raw: bytes | None, version: str) -> bool:
        """Learn how one object is; return whether that was news."""
        known = self.versions.get(key)
        if key not in self.keys or (known is not None and not is_newer(version, known)):
            return False
        self.versions[key] = version
        if raw is None:
            return self.objects.pop(key, None) is not None
        self.objects[key] = without_managed_fields(raw)
        return True

    def _replace(self, snapshot: Snapshot) -> list[ObjectKey]:
        """Believe a whole state without comparing: what came later is told again."""
        found = {key: raw for raw in snapshot.items if (key := head_of(raw).key) in self.keys}
        before, self.versions, self.objects = self.versions, {}, {}
        for key in self.keys:
            raw = found.get(key)
            self.put(key, raw, snapshot.resource_version if raw is None else head_of(raw).version)
        return [key for key in self.keys if key in self.objects and self.versions[key] != before.get(key)] + [
            key for key in before if key in self.keys and key not in self.objects
        ]


@dataclass
class ObjectWatches:
    """A reader of single objects that knows what it has seen. `run` is a job that never ends."""

    client: Client
    random: Random
    most: int = MOST_WATCHES
    options: FollowOptions = field(default_factory=FollowOptions)
    _wanted: dict[tuple[Bell, ObjectKey], frozenset[Target]] = field(default_factory=dict, init=False)
    _watches: dict[Watched, _Watch] = field(default_factory=dict, init=False)
    _of: dict[Target, _Watch] = field(default_factory=dict, init=False)
    _refused: dict[Watched, float] = field(default_factory=dict, init=False)
    _group: asyncio.TaskGroup | None = field(default=None, init=False)

    def want(self, bell: Bell, key: ObjectKey, targets: frozenset[Target]) -> None:
        """Follow these objects on behalf of a key, and ring for it when one of them changes."""
        if self._wanted.get((bell, key), frozenset()) != targets or self._is_time_to_try_again():
            self._wanted.pop((bell, key), None)
            if targets:
                self._wanted[bell, key] = targets
            self._arrange()

    def forget(self, bell: Bell, key: ObjectKey) -> None:
        """Follow nothing on behalf of a key."""
        self.want(bell, key, frozenset())

    def has_seen(self, target: Target) -> bool:
        """Whether `look` knows about an object."""
        watch = self._of.get(target)
        return watch is not None and watch.told and target.key in watch.versions

    def look(self, target: Target) -> Object | None:
        """Return an object as last seen, None when it is not there; ask `has_seen` first."""
        raw = self._of[target].objects.get(target.key)
        return None if raw is None else _decoded(raw, target.resource)

    def learn(self, target: Target, obj: Object) -> None:
        """Take over a server's answer, so that nobody looks at what it replaced."""
        watch = self._of.get(target)
        if watch is not None:
            watch.put(target.key, trimmed(orjson.dumps(obj)), str(obj["metadata"].get("resourceVersion") or ""))

    async def settle(self, targets: Iterable[Target]) -> None:
        """Wait, not for long, until what has just begun to be followed has been told."""
        begun = {id(watch): watch for target in targets if (watch := self._of.get(target)) is not None}
        waiting = [watch.settled.wait() for watch in begun.values() if watch.task is not None and not watch.told]
        if waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await asyncio.gather(*waiting)

    async def run(self) -> None:
        """Follow whatever is wanted, for ever."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for watched, watch in self._watches.items():
                    self._start(watched, watch)
                await asyncio.Event().wait()
            finally:
                self._group = None

    def _arrange(self) -> None:
        targets = {target for wanted in self._wanted.values() for target in wanted}
        plan = choose_watches(targets, most=self.most)
        now = asyncio.get_running_loop().time()
        self._refused = {watched: until for watched, until in self._refused.items() if until > now}
        for watched in set(self._watches) - set(plan):
            self._stop(self._watches.pop(watched))
        for watched in plan.keys() - self._refused.keys():
            watch = self._watches.setdefault(watched, _Watch(plan[watched]))
            watch.keys = plan[watched]
            if watch.task is None:
                self._start(watched, watch)
        self._of = {
            Target(resource, key): watch for (resource, _), watch in self._watches.items() for key in watch.keys
        }

    def _start(self, watched: Watched, watch: _Watch) -> None:
        if self._group is not None:
            name = f"watch applied {watched[0].group_resource}"
            watch.task = self._group.create_task(self._follow(watched, watch), name=name)

    @staticmethod
    def _stop(watch: _Watch) -> None:
        if watch.task is not None:
            watch.task.cancel()
        watch.settled.set()

    async def _follow(self, watched: Watched, watch: _Watch) -> None:
        resource, scope = watched
        options = replace(self.options, random=self.random, on_trouble=_give_up_when_refused)
        feed = follow(
            self.client, resource, namespace=scope.namespace, labels=scope.labels, fields=scope.fields, options=options
        )
        with suppress(_Unwatchable):
            async with aclosing(feed) as facts:
                async for fact in facts:
                    changed = watch.take(fact)
                    watch.told = True
                    watch.settled.set()
                    for key in changed:
                        self._ring(Target(resource, key))
        self._give_up(watched, watch)

    def _give_up(self, watched: Watched, watch: _Watch) -> None:
        self._refused[watched] = asyncio.get_running_loop().time() + TRY_AGAIN
        if self._watches.get(watched) is watch:
            del self._watches[watched]
        for target in [target for target, its in self._of.items() if its is watch]:
            del self._of[target]
        watch.settled.set()

    def _ring(self, target: Target) -> None:
        for (bell, key), targets in self._wanted.items():
            if target in targets:
                bell.ring(key)

    def _is_time_to_try_again(self) -> bool:
        now = asyncio.get_running_loop().time()
        return any(until <= now for until in self._refused.values())


def _give_up_when_refused(trouble: KubeError) -> None:
    if isinstance(trouble, Forbidden | NotFound | MethodNotAllowed):
        raise _Unwatchable from trouble


def _decoded(raw: bytes, resource: Resource) -> Object:
    obj: Object = orjson.loads(raw)
    obj.setdefault("apiVersion", resource.api_version)
    obj.setdefault("kind", resource.kind)
    return obj
