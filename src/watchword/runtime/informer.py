"""One informer: a store that follows one watch, and the handlers that are called on changes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Self, TypeAlias

import structlog
from msgspec import Struct

from watchword.api.meta import ObjectKey, Resource
from watchword.api.selectors import parse_field_selector, parse_label_selector
from watchword.kube.watch import ObjectChange, Snapshot, WatchUpdate
from watchword.runtime.errors import UnexpectedExit
from watchword.runtime.informer_store import InformerStore
from watchword.runtime.raw_objects import Delta, ObjectHead, Projection, is_newer

DeltaHandler: TypeAlias = Callable[[Delta], None]


class WatchScope(Struct, frozen=True):
    """Which objects of a kind are watched; all of them by default."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @classmethod
    def single(cls, key: ObjectKey) -> Self:
        return cls(key.namespace, fields=f"metadata.name={key.name}")

    def covers(self, namespace: str) -> bool:
        """Whether objects of that namespace (empty: of all) are watched."""
        return self.namespace in ("", namespace)


Reduction: TypeAlias = Callable[[bytes], bytes | None]
WatchSource: TypeAlias = Callable[[Resource, WatchScope, Reduction], AsyncGenerator[WatchUpdate, None]]
"""Watches a part of a kind. Snapshots hold what the `Reduction` returns for each object."""


class Informer:
    """Keeps a store equal to the server's state, and calls handlers on changes.

    Handlers are called after the store has changed and must not block. Each version of an object is reported
    once, however often the server repeats it.
    """

    def __init__(self, resource: Resource, scope: WatchScope, *, project: Projection | None = None) -> None:
        self.resource = resource
        self.scope = scope
        self.project = project
        self.store = InformerStore(resource, project=project)
        self.version = ""
        self.last_contact: float | None = None
        self._selector = parse_label_selector(scope.labels)
        self._fields = parse_field_selector(scope.fields)
        self._handlers: list[DeltaHandler] = []
        self._synced = asyncio.Event()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._log: Any = structlog.get_logger("watchword.cache").bind(resource=resource.group_resource)

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    async def sync(self) -> None:
        await self._synced.wait()

    def age(self) -> float | None:
        """Return the seconds since the server last sent anything; None before that, or while the watch does not run."""
        return None if self.last_contact is None else asyncio.get_running_loop().time() - self.last_contact

    async def wait_for(self, version: str) -> None:
        if not self.version or is_newer(version, self.version):
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append((version, waiter))
            await waiter

    def add_handler(self, *handlers: DeltaHandler) -> None:
        """Call handlers for every existing object, and from now on for every change."""
        self._handlers.extend(handlers)
        for delta in self.store.everything() if handlers else ():
            for handler in handlers:
                self._call_handler(handler, delta)

    async def run(self, feed: WatchSource) -> None:
        """Process the watch; never returns, and raises `UnexpectedExit` if the watch ends."""
        try:
            async with aclosing(feed(self.resource, self.scope, self.store.reduce)) as facts:
                async for fact in facts:
                    self.handle_update(fact, reduced=True)
                    del fact  # a snapshot is large, and the next event may be minutes away
        finally:
            self.last_contact = None  # not running, so silence means nothing
        raise UnexpectedExit(f"the watch of {self.resource.group_resource} ended")

    def handle_update(self, fact: WatchUpdate, *, reduced: bool = False) -> None:
        """Apply one watch event to the store; `reduced` tells that a snapshot holds what is stored of each object."""
        self.last_contact = asyncio.get_running_loop().time()
        if isinstance(fact, Snapshot):
            self._synced.set()
            for delta in self.store.replace(fact.items, fact.resource_version, reduced=reduced):
                self._notify_handlers(delta)
        elif isinstance(fact, ObjectChange):
            change = self.store.remove if fact.type == "DELETED" else self.store.put
            self._notify_handlers(change(fact.raw, fact.resource_version))
        elif not is_newer(fact.resource_version, self.version):  # a bookmark without a newer revision
            return
        self.version = fact.resource_version
        self._release()

    def observe_write(self, raw: bytes, head: ObjectHead) -> None:
        """Store the server's response to our own write, so that no reader sees the replaced version.

        Only for objects that the watch certainly selects; a newer version from the watch wins.
        """
        if not self.synced or not self.scope.covers(head.metadata.namespace) or not self._may_be_ours(head):
            return
        if self._selector.matches(head.labels):
            self._notify_handlers(self.store.put(raw, head.version))

    def _may_be_ours(self, head: ObjectHead) -> bool:
        """Whether the scope's field selector matches an object, as far as its metadata tells; False if unknown."""
        return all(
            field.path == "metadata.name" and (head.metadata.name == field.value) != field.negated
            for field in self._fields
        )

    def _notify_handlers(self, delta: Delta | None) -> None:
        if delta is not None:
            for handler in self._handlers:
                self._call_handler(handler, delta)

    def _call_handler(self, handler: DeltaHandler, delta: Delta) -> None:
        try:
            handler(delta)
        except Exception:  # noqa: BLE001 - an unexpected object must not stop the watch
            self._log.exception("handler failed on one object", key=str(delta.key))

    def _release(self) -> None:
        held = []
        for version, waiter in self._waiting:
            if is_newer(version, self.version):
                held.append((version, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiting = held
