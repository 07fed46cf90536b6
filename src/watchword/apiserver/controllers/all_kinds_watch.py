"""Every stored kind followed at once, also those that custom resource definitions add later."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct, field

from watchword.api.meta import Object, Resource
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from watchword.apiserver.model import Registry, ResourceKind

Listener = Callable[[Resource, str, Object], None]
"""Called with the resource, ADDED, MODIFIED or DELETED, and the object."""

IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})  # many, short-lived, and never owners


class AllKindsWatch(Struct):
    """One subscription per kind, shared by all controllers that need every kind."""

    registry: Registry
    listeners: list[Listener] = field(default_factory=list)
    kinds_changed: list[Callable[[], None]] = field(default_factory=list)
    _stops: dict[tuple[str, str], Callable[[], None]] = field(default_factory=dict)
    _stop_definitions: Callable[[], None] | None = None

    async def start(self) -> None:
        """Follow every kind served now and from now on; the listeners see all objects first as ADDED."""
        self._follow_new_kinds()
        if self.registry.kind(CUSTOM_RESOURCE_DEFINITIONS.group, "v1", CUSTOM_RESOURCE_DEFINITIONS.plural):
            self._stop_definitions = self.registry.subscribe(CUSTOM_RESOURCE_DEFINITIONS, self._definition_changed)

    async def stop(self) -> None:
        if self._stop_definitions is not None:
            self._stop_definitions()
        for stop in self._stops.values():
            stop()
        self._stops.clear()

    def _definition_changed(self, _change: str, _new: Object) -> None:
        # another listener may still have to register the kind: read after all have run
        asyncio.get_running_loop().call_soon(self._follow_new_kinds)

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


def stored_kinds(kinds: Iterable[ResourceKind]) -> list[ResourceKind]:
    chosen: dict[tuple[str, str], ResourceKind] = {}
    for kind in kinds:
        place = (kind.resource.group, kind.resource.plural)
        if not kind.stored or kind.stored_as is not None or place in IGNORED:
            continue
        if place not in chosen or kind.storage_version == kind.resource.version:
            chosen[place] = kind
    return list(chosen.values())
