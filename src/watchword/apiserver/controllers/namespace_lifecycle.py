"""Deletes the content of namespaces that are being deleted, then removes their finalizer."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime

from watchword.api.conditions import Condition, conditions_of, merge_condition
from watchword.api.meta import Object, ObjectKey, Resource, finalizers_of, is_deleting
from watchword.api.resources import CORE_EVENTS, NAMESPACES, PODS
from watchword.api.time import parse_rfc3339
from watchword.apiserver.controllers.all_kinds_watch import AllKindsWatch, stored_kinds
from watchword.apiserver.controllers.controller import Watches
from watchword.apiserver.controllers.deletion import delete_if_unchanged
from watchword.apiserver.controllers.worker import Worker
from watchword.apiserver.model import Now, Registry

FINALIZER = "kubernetes"
DELETED_TOGETHER = 50
"""Deletions of one namespace at a time: together they take one transaction of the store, not one each."""

# Deletion here works on the registry itself: these three always succeed, and are set for compatibility.
_SUCCEEDED = (
    Condition.false(
        "NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"
    ),
    Condition.false(
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    Condition.false(
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


class NamespaceLifecycleController:
    """Triggered by namespaces that are being deleted, and by each object that leaves one."""

    def __init__(self, registry: Registry, all_kinds_watch: AllKindsWatch, now: Now) -> None:
        self.registry = registry
        self.all_kinds_watch = all_kinds_watch
        self.now = now
        self._ending: set[str] = set()
        self.worker: Worker[str] = Worker("namespace lifecycle", self.sync)
        self.all_kinds_watch.listeners.append(self._content_changed)

    def watches(self) -> Watches:
        """Subscribe to namespaces; `all_kinds_watch` delivers their content."""
        return {NAMESPACES: self._namespace_changed}

    def _namespace_changed(self, change: str, new: Object) -> None:
        name = new["metadata"]["name"]
        if change == "DELETED":
            self._ending.discard(name)
        elif is_deleting(new):
            self._ending.add(name)
            self.worker.enqueue(name)

    def _content_changed(self, _resource: Resource, change: str, obj: Object) -> None:
        namespace = obj["metadata"].get("namespace")
        if namespace in self._ending and (change != "MODIFIED" or is_deleting(obj)):
            self.worker.enqueue(namespace)

    async def sync(self, name: str) -> float | None:
        """Delete what is left in a terminating namespace; without content, release it."""
        namespace = self.registry.get(NAMESPACES, ObjectKey.cluster(name))
        if namespace is None or not is_deleting(namespace):
            return None
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            return None
        remaining = await self._delete_content(name)
        if remaining:
            await self._report(namespace, remaining)
            return next_grace_end(remaining, now=self.now())
        namespace["spec"]["finalizers"] = [each for each in finalizers if each != FINALIZER]
        await self.registry.update(NAMESPACES, namespace, "finalize")
        return None

    async def _delete_content(self, name: str) -> dict[Resource, list[Object]]:
        resources = [kind.resource for kind in stored_kinds(self.registry.kinds()) if kind.resource.namespaced]
        if self.registry.kind("", "v1", CORE_EVENTS.plural):
            resources.append(CORE_EVENTS)
        pods = [resource for resource in resources if resource == PODS]  # first: what they use must not vanish
        return await self._delete_all(name, pods) or await self._delete_all(name, resources)

    async def _delete_all(self, name: str, resources: list[Resource]) -> dict[Resource, list[Object]]:
        """Delete what a namespace has of these kinds, many at a time; return what is left."""
        found = [(resource, obj) for resource in resources for obj in self.registry.list(resource, name)]
        for start in range(0, len(found), DELETED_TOGETHER):
            chunk = found[start : start + DELETED_TOGETHER]
            await asyncio.gather(*(self._delete(resource, obj) for resource, obj in chunk))
        left = {resource: self.registry.list(resource, name) for resource in resources}
        return {resource: objects for resource, objects in left.items() if objects}

    async def _delete(self, resource: Resource, obj: Object) -> None:
        grace = None
        if is_deleting(obj):
            ends = parse_rfc3339(obj["metadata"]["deletionTimestamp"])
            if finalizers_of(obj) or ends is None or ends > self.now():
                return
            grace = 0  # its grace period is over and no node ended it
        await delete_if_unchanged(self.registry, resource, obj, grace_seconds=grace)

    async def _report(self, namespace: Object, remaining: dict[Resource, list[Object]]) -> None:
        rows = conditions_of(namespace)
        changed = False
        for condition in remaining_content_conditions(remaining):
            merged = merge_condition(rows, condition, now=self.now())
            if merged is not None:
                rows, changed = merged, True
        if changed:
            namespace["status"] = {**(namespace.get("status") or {}), "conditions": rows}
            await self.registry.update(NAMESPACES, namespace, "status")


def next_grace_end(remaining: dict[Resource, list[Object]], *, now: datetime) -> float | None:
    """Return in how many seconds the first pod's grace is over, None when no pod is waited for."""
    ends = [
        parse_rfc3339(pod["metadata"]["deletionTimestamp"])
        for pod in remaining.get(PODS, [])
        if is_deleting(pod) and not finalizers_of(pod)
    ]
    waits = [(end - now).total_seconds() for end in ends if end is not None]
    return max(min(waits), 0.001) if waits else None


def remaining_content_conditions(remaining: dict[Resource, list[Object]]) -> list[Condition]:
    """Return the five conditions that report what blocks the deletion of a namespace."""
    counts = ", ".join(
        f"{resource.plural}.{resource.group} has {len(left)} resource instances"
        for resource, left in sorted(remaining.items(), key=lambda row: row[0].plural)
    )
    holders = Counter(name for left in remaining.values() for obj in left for name in finalizers_of(obj))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(holders.items()))
    finalizers = Condition.false(
        "NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"
    )
    if held:
        finalizers = Condition.true(
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {held}",
        )
    remains = f"Some resources are remaining: {counts}"
    return [*_SUCCEEDED, Condition.true("NamespaceContentRemaining", "SomeResourcesRemain", remains), finalizers]
