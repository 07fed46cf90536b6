"""Serves what custom resource definitions describe, as soon as they are stored."""

from collections.abc import Callable

from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, finalizers_of, is_deleting
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from watchword.apiserver.controllers.worker import Worker
from watchword.apiserver.crd.definition import (
    CLEANUP_FINALIZER,
    DELETED,
    DELETING,
    decide_names,
    decide_status,
    is_established,
    names_of,
    spec_of,
    status_of,
    with_conditions,
)
from watchword.apiserver.crd.served_kinds import kinds_of
from watchword.apiserver.kinds.from_openapi import text
from watchword.apiserver.serving.model import Now, Registry, ResourceKind
from watchword.apiserver.serving.object_storage import KindTable

RECHECK_SECONDS = 0.5  # while objects of a deleted definition wait for their finalizers


class CustomResourceController:
    """Keeps the table of kinds equal to the stored definitions, and their status up to date.

    A kind is served before the request that stored its definition is answered. Built-in kinds win.
    """

    def __init__(self, registry: Registry, table: KindTable, now: Now) -> None:
        self._registry = registry
        self._table = table
        self._now = now
        self._built_in = {(kind.resource.group, kind.resource.plural) for kind in registry.kinds() if not kind.custom}
        self._known: dict[str, Object] = {}
        self._served: dict[str, bool] = {}  # by name: whether its kinds are
        self._worker: Worker[str] = Worker("custom resource definitions", self._sync)
        self._stop: Callable[[], None] | None = None

    async def start(self) -> None:
        self._worker.start()
        self._stop = self._registry.subscribe(CUSTOM_RESOURCE_DEFINITIONS, self._changed)

    async def stop(self) -> None:
        """Stop watching definitions; kinds that are served stay served."""
        if self._stop is not None:
            self._stop()
        await self._worker.stop()

    def _changed(self, change: str, new: Object) -> None:
        name = new["metadata"]["name"]
        if change == "DELETED":
            self._known.pop(name, None)
            self._serve(new, [])
            self._served.pop(name, None)
            for other in self._of_group(text(spec_of(new), "group")):
                self._worker.enqueue(other["metadata"]["name"])
            return
        before = self._known.get(name)
        self._known[name] = new
        others = [each for each in self._of_group(text(spec_of(new), "group")) if each is not new]
        accepted = decide_names(new, others).condition.status == "True" or is_established(new)
        if before is None or _describes_others(before, new) or self._served[name] is not accepted:
            self._serve(new, kinds_of(new) if accepted else [])
            self._served[name] = accepted
        self._worker.enqueue(name)

    def _serve(self, definition: Object, kinds: list[ResourceKind]) -> None:
        place = (text(spec_of(definition), "group"), text(names_of(definition), "plural"))
        if place not in self._built_in:
            self._table.remove_group_resource(*place)
            if kinds:
                self._table.add(kinds)

    def _of_group(self, group: str) -> list[Object]:
        return [each for each in self._known.values() if text(spec_of(each), "group") == group]

    async def _sync(self, name: str) -> float | None:
        definition = self._known.get(name)
        if definition is None:
            return None
        if is_deleting(definition):
            return await self._clean_up(definition)
        group = text(spec_of(definition), "group")
        others = [each for each in self._of_group(group) if each["metadata"]["name"] != name]
        await self._write_status(definition, decide_status(definition, others, self._now()))
        return None

    async def _clean_up(self, definition: Object) -> float | None:
        """Delete every object of a definition, then remove its finalizer."""
        if CLEANUP_FINALIZER not in finalizers_of(definition):
            return None
        definition = await self._write_condition(definition, DELETING)
        if await self._delete_objects(definition):
            return RECHECK_SECONDS
        definition = await self._write_condition(definition, DELETED)
        kept = [each for each in finalizers_of(definition) if each != CLEANUP_FINALIZER]
        metadata = {**definition["metadata"], "finalizers": kept}
        await self._registry.update(CUSTOM_RESOURCE_DEFINITIONS, {**definition, "metadata": metadata})
        return None

    async def _write_condition(self, definition: Object, condition: Condition) -> Object:
        return await self._write_status(definition, with_conditions(status_of(definition), [condition], self._now()))

    async def _write_status(self, definition: Object, status: Object) -> Object:
        if status == status_of(definition):
            return definition
        return await self._registry.update(CUSTOM_RESOURCE_DEFINITIONS, {**definition, "status": status}, "status")

    async def _delete_objects(self, definition: Object) -> int:
        resource = next((kind.resource for kind in kinds_of(definition)), None)
        if resource is None or (resource.group, resource.plural) in self._built_in:
            return 0
        if self._registry.kind(resource.group, resource.version, resource.plural) is None:
            return 0  # never served: its names belong to another definition
        for obj in self._registry.list(resource):
            if not is_deleting(obj):
                await self._registry.delete(resource, ObjectKey.of(obj), uid=obj["metadata"]["uid"])
        return len(self._registry.list(resource))


def _describes_others(before: Object, after: Object) -> bool:
    """Whether the kinds of a definition have changed; its names tell whether they are served."""
    return (
        before["metadata"].get("generation") != after["metadata"].get("generation")
        or before["metadata"].get("uid") != after["metadata"].get("uid")
        or is_deleting(before) is not is_deleting(after)
    )
