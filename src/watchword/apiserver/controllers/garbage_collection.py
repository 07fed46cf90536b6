"""Deletes dependents without owners, and carries out foreground and orphan deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of, is_deleting, uid_of
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from watchword.apiserver.controllers.worker import Controller
from watchword.apiserver.serving.delete import FOREGROUND, ORPHAN
from watchword.apiserver.serving.model import ApiError, Registry, ResourceKind

Listener = Callable[[Resource, str, Object], None]
"""Called with the resource, ADDED, MODIFIED or DELETED, and the object."""

IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})  # many, short-lived, and never owners


class AllKindsWatch(Struct, eq=False):
    """One subscription per kind, shared by all controllers that need every kind."""

    registry: Registry
    listeners: list[Listener] = field(default_factory=list)
    kinds_changed: list[Callable[[], None]] = field(default_factory=list)
    _stops: dict[tuple[str, str], Callable[[], None]] = field(default_factory=dict)

    async def start(self) -> None:
        """Follow every kind served now and from now on; the listeners see all objects first as ADDED."""
        self._follow_new_kinds()

    async def stop(self) -> None:
        for stop in self._stops.values():
            stop()
        self._stops.clear()

    def _follow_new_kinds(self) -> None:
        served = {(kind.resource.group, kind.resource.plural): kind for kind in stored_kinds(self.registry.kinds())}
        gone = [place for place in self._stops if place not in served]
        fresh = [place for place in served if place not in self._stops]
        for place in gone:
            self._stops.pop(place)()
        if gone or fresh:
            for notify in self.kinds_changed:
                notify()
        for place in fresh:
            resource = served[place].resource
            self._stops[place] = self.registry.subscribe(resource, partial(self._deliver, resource))

    def _deliver(self, resource: Resource, change: str, new: Object) -> None:
        for listener in self.listeners:
            listener(resource, change, new)
        if resource == CUSTOM_RESOURCE_DEFINITIONS:
            # another listener may still have to register the kind: read after all have run
            asyncio.get_running_loop().call_soon(self._follow_new_kinds)


def stored_kinds(kinds: Iterable[ResourceKind]) -> list[ResourceKind]:
    chosen: dict[tuple[str, str], ResourceKind] = {}
    for kind in kinds:
        place = (kind.resource.group, kind.resource.plural)
        if not kind.stored or kind.stored_as is not None or place in IGNORED:
            continue
        if place not in chosen or kind.storage_version == kind.resource.version:
            chosen[place] = kind
    return list(chosen.values())


class OwnerGraphNode(Struct, frozen=True):
    """One object in the graph; the UID distinguishes it from others of the same name."""

    resource: Resource
    key: ObjectKey
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.group_resource} {self.key}"


class OwnerState(Enum):
    """The state of the owner that a reference names."""

    SOLID = "the owner is there and stays"
    WAITING = "the owner is there and waits for its dependents to go"
    DANGLING = "the owner is gone, or is another object of the same name"
    UNKNOWN = "unknown: the owner's kind is not served, or cannot own this object"


class DependentDecision(Struct, frozen=True):
    """What is to become of a dependent."""

    delete: bool = False
    foreground: bool = False
    strip: frozenset[str] = frozenset()  # UIDs of references to remove


def decide_dependent(standings: Mapping[str, OwnerState], *, has_dependents: bool) -> DependentDecision:
    """Decide from the standing of each owner, by UID; without owners nothing happens."""
    if not standings or OwnerState.UNKNOWN in standings.values():
        return DependentDecision()
    if OwnerState.SOLID in standings.values():
        strip = frozenset(uid for uid, standing in standings.items() if standing != OwnerState.SOLID)
        return DependentDecision(strip=strip)
    waiting = OwnerState.WAITING in standings.values()
    return DependentDecision(delete=True, foreground=waiting and has_dependents)


def owner_references_of(obj: Mapping[str, Any]) -> list[Object]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def without_references(obj: Object, uids: frozenset[str]) -> Object:
    kept = [ref for ref in owner_references_of(obj) if ref.get("uid") not in uids]
    metadata = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
    return {**obj, "metadata": {**metadata, **({"ownerReferences": kept} if kept else {})}}


def without_finalizer(obj: Object, name: str) -> Object:
    kept = [each for each in finalizers_of(obj) if each != name]
    return {**obj, "metadata": {**obj["metadata"], "finalizers": kept}}


def without_blocking_references(obj: Object) -> Object:
    """Return the object without references that block the deletion of an owner: that breaks a circle."""
    refs = [{**ref, "blockOwnerDeletion": False} for ref in owner_references_of(obj)]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": refs}}


class OwnerWatch(Struct, eq=False):
    """Knows which objects name which owners; enqueues those that may have lost one, or may be released."""

    registry: Registry
    enqueue: Callable[[OwnerGraphNode], None]
    owners_of: dict[OwnerGraphNode, frozenset[str]] = field(default_factory=dict)  # UIDs; of objects that have owners
    dependents: dict[str, dict[OwnerGraphNode, None]] = field(default_factory=dict)  # in the same order in each process
    waiting: dict[str, OwnerGraphNode] = field(default_factory=dict)  # owners that wait for their dependents, by UID
    unresolved: dict[OwnerGraphNode, None] = field(default_factory=dict)  # dependents of kinds not served now
    owners: dict[tuple[str, str], Resource] = field(default_factory=dict)  # kinds that can own, by group and kind

    def changed(self, resource: Resource, change: str, obj: Object) -> None:
        if change == "ADDED" and not owner_references_of(obj) and not is_deleting(obj):
            return  # most: it neither has nor loses an owner
        node = OwnerGraphNode(resource, ObjectKey.of(obj), uid_of(obj))
        if change == "DELETED":
            self.waiting.pop(node.uid, None)
            self.unresolved.pop(node, None)
            self._wake_waiting(self._put(node, frozenset()))
            self._wake_dependents(node)
            return
        owners = frozenset(str(ref.get("uid") or "") for ref in owner_references_of(obj))
        self._put(node, owners)
        if is_deleting(obj):
            finalizers = finalizers_of(obj)
            if FOREGROUND in finalizers and node.uid not in self.waiting:
                self.waiting[node.uid] = node
                self._wake_dependents(node)
            if ORPHAN in finalizers or FOREGROUND in finalizers:
                self.enqueue(node)
        elif owners:
            self.enqueue(node)
        self._wake_waiting(owners)

    def _put(self, node: OwnerGraphNode, owners: frozenset[str]) -> frozenset[str]:
        """Replace the owners of an object; return those that it had."""
        known = self.owners_of.pop(node, frozenset())
        for uid in known - owners:
            self.dependents[uid].pop(node, None)
            if not self.dependents[uid]:
                del self.dependents[uid]
        for uid in owners - known:
            self.dependents.setdefault(uid, {})[node] = None
        if owners:
            self.owners_of[node] = owners
        return known

    def dependents_of(self, uid: str) -> list[OwnerGraphNode]:
        return list(self.dependents.get(uid, ()))

    def kinds_changed(self) -> None:
        """Update which kinds are served; some owners may have become known."""
        served = [kind.resource for kind in stored_kinds(self.registry.kinds())]
        self.owners = {(resource.group, resource.kind): resource for resource in served}
        for node in list(self.unresolved):
            self.enqueue(node)

    def _wake_dependents(self, node: OwnerGraphNode) -> None:
        for dependent in self.dependents_of(node.uid):
            self.enqueue(dependent)

    def _wake_waiting(self, owners: frozenset[str]) -> None:
        for uid in owners & self.waiting.keys():
            self.enqueue(self.waiting[uid])


class GarbageCollector(Controller[OwnerGraphNode]):
    """Triggered by every object that has or is an owner; decides on the stored state, never on the graph."""

    all_kinds_watch: AllKindsWatch

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seen = OwnerWatch(self.registry, self.worker.enqueue)
        self.all_kinds_watch.listeners.append(self.seen.changed)
        self.all_kinds_watch.kinds_changed.append(self.seen.kinds_changed)

    async def sync(self, node: OwnerGraphNode) -> float | None:
        obj = self.registry.get(node.resource, node.key)
        if obj is None or uid_of(obj) != node.uid:
            return None
        if is_deleting(obj):
            if ORPHAN in finalizers_of(obj):
                await self._orphan_dependents(node, obj)
            elif FOREGROUND in finalizers_of(obj):
                await self._finish_foreground(node, obj)
            return None
        await self._collect(node, obj)
        return None

    def _live_dependents(self, node: OwnerGraphNode) -> Iterator[tuple[OwnerGraphNode, Object]]:
        for dependent in self.seen.dependents_of(node.uid):
            obj = self.registry.get(dependent.resource, dependent.key)
            if obj is not None and uid_of(obj) == dependent.uid:
                yield dependent, obj

    async def _orphan_dependents(self, node: OwnerGraphNode, obj: Object) -> None:
        for dependent, live in self._live_dependents(node):
            await self.registry.update(dependent.resource, without_references(live, frozenset({node.uid})))
        await self.registry.update(node.resource, without_finalizer(obj, ORPHAN))

    async def _finish_foreground(self, node: OwnerGraphNode, obj: Object) -> None:
        blocking = [
            dependent
            for dependent, each in self._live_dependents(node)
            if any(ref.get("uid") == node.uid and ref.get("blockOwnerDeletion") for ref in owner_references_of(each))
        ]
        if not blocking:
            await self.registry.update(node.resource, without_finalizer(obj, FOREGROUND))
        for dependent in blocking:
            if dependent.uid not in self.seen.waiting:
                self.worker.enqueue(dependent)

    async def _collect(self, node: OwnerGraphNode, obj: Object) -> None:
        standings = {str(ref.get("uid")): self._owner_state(node, ref) for ref in owner_references_of(obj)}
        if OwnerState.UNKNOWN in standings.values():
            self.seen.unresolved[node] = None
            return
        self.seen.unresolved.pop(node, None)
        dependents = self.seen.dependents_of(node.uid)
        verdict = decide_dependent(standings, has_dependents=bool(dependents))
        if verdict.strip:
            await self.registry.update(node.resource, without_references(obj, verdict.strip))
        elif verdict.delete:
            if verdict.foreground and any(each.uid in self.seen.waiting for each in dependents):
                obj = await self.registry.update(node.resource, without_blocking_references(obj))
            version, propagation = obj["metadata"]["resourceVersion"], "Foreground" if verdict.foreground else ""
            try:
                await self.registry.delete(
                    node.resource, node.key, uid=node.uid, resource_version=version, propagation=propagation
                )
            except ApiError as refusal:
                if refusal.code != 404:  # a conflict is tried again: the write that caused it may fail without an event
                    raise

    def _owner_state(self, node: OwnerGraphNode, ref: Object) -> OwnerState:
        group = str(ref.get("apiVersion") or "").rpartition("/")[0]
        resource = self.seen.owners.get((group, str(ref.get("kind") or "")))
        if resource is None or (resource.namespaced and not node.resource.namespaced):
            return OwnerState.UNKNOWN
        key = ObjectKey(node.key.namespace if resource.namespaced else "", str(ref.get("name") or ""))
        owner = self.registry.get(resource, key)
        if owner is None or uid_of(owner) != str(ref.get("uid") or ""):
            return OwnerState.DANGLING
        if is_deleting(owner) and FOREGROUND in finalizers_of(owner):
            return OwnerState.WAITING
        return OwnerState.SOLID
