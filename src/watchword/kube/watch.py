"""Lists and watches a collection without end: the complete state once, then every change."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from random import Random
from typing import TypeAlias

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.kube import errors
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.packed_objects import PackedObjects
from watchword.kube.watch_stream import WatchEvent, WatchQuery, watch_events

REFUSALS_BEFORE_RELIST = 3
STALLS_BEFORE_RELIST = 2
REFUSED_WATCHES_BEFORE_POLLING = 2
COLLECT_FOR = 0.25
"""Seconds for which events of a kind in `WatchOptions.collect` wait for more of them, when they come that often."""
SHORTEST_SESSION = 1.0
"""A watch that the server ends within this many seconds counts as a failure."""


def is_cancellation_requested() -> bool:
    """Whether `CancelledError` was requested for this task, rather than raised by something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Snapshot(Struct, frozen=True):
    """The complete state at one revision: the first sync and every re-list."""

    items: Iterable[bytes]  # raw JSON of each object; managedFields may be present
    resource_version: str


class ObjectChange(Struct, frozen=True):
    """One object was ADDED, MODIFIED or DELETED."""

    type: str
    raw: bytes  # raw JSON of the object
    resource_version: str


class Bookmark(Struct, frozen=True):
    """A bookmark: every change up to this revision has been delivered."""

    resource_version: str


WatchUpdate: TypeAlias = Snapshot | ObjectChange | Bookmark


class WatchOptions(Struct, frozen=True):
    """How a collection is watched; all times in seconds of the event loop."""

    page_size: int = 500
    send_initial_events: bool = True  # one streaming request instead of list and watch, where the server supports it
    initial_events_timeout: float = 10.0  # without events for this long before the initial events end: an older server
    stall_after: float = 90.0  # bookmarks come every minute, once the first has come
    session: tuple[int, int] = (900, 1800)  # how long one connection lasts at most: silence then shows a broken one
    poll_every: float = 10.0  # where listing is allowed and watching is not
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.2, limit=30.0))
    collect: frozenset[Resource] = frozenset()  # kinds whose events may come a moment later, many at a time
    random: Random = field(default_factory=Random)
    on_error: Callable[[errors.KubeError], None] = lambda _: None
    reduce: Callable[[bytes], bytes | None] = bytes  # what a snapshot keeps of an object, from the moment it arrives


def list_and_watch(
    client: Client,
    resource: Resource,
    *,
    namespace: str = "",
    labels: str = "",
    fields: str = "",
    options: WatchOptions | None = None,
) -> AsyncGenerator[WatchUpdate, None]:
    """Yield a `Snapshot`, then changes in order; another `Snapshot` replaces everything before it.

    Never ends and never raises for an error of the server, refusals included: errors go to
    `options.on_error`, and it tries again later. Where only listing is allowed, the collection is listed
    every `options.poll_every` seconds. Close it (`aclosing`) to close its connection.
    """
    query = WatchQuery(namespace=namespace, labels=labels, fields=fields)
    return _ListWatcher(client, resource, query, options or WatchOptions()).run()


async def watch_object(
    client: Client, resource: Resource, key: ObjectKey, options: WatchOptions | None = None
) -> AsyncGenerator[Object | None, None]:
    """Yield one object, None while there is none, and each of its later states, as `list_and_watch` does."""
    name = f"metadata.name={key.name}"
    facts = list_and_watch(client, resource, namespace=key.namespace, fields=name, options=options)
    async with aclosing(facts):
        async for fact in facts:
            if isinstance(fact, Bookmark):
                continue
            is_gone = isinstance(fact, ObjectChange) and fact.type == "DELETED"
            items = [fact.raw] if isinstance(fact, ObjectChange) else [*fact.items]
            yield None if is_gone or not items else orjson.loads(items[0])


class _RelistRequired(errors.KubeError):
    """The watch cannot be continued: the stream contradicts earlier events or is not what was requested."""


class _ListWatcher(Struct):
    client: Client
    resource: Resource
    scope: WatchQuery
    options: WatchOptions
    version: str = ""  # delivered up to this revision; empty: a snapshot is due
    changed: str = ""  # the last change that was delivered
    initial: PackedObjects | None = None  # collects the snapshot while the server streams it
    failures: int = 0
    stalls: int = 0
    refused_watches: int = 0  # since the last one that was allowed
    streams: bool = True  # rather than to list

    def __post_init__(self) -> None:
        self.streams = self._may_stream()

    def _may_stream(self) -> bool:
        return self.options.send_initial_events and self.client.server.supports_watch_list

    async def run(self) -> AsyncGenerator[WatchUpdate, None]:
        while True:
            started = asyncio.get_running_loop().time()
            problem: errors.KubeError | None = None
            try:
                async with aclosing(self._session()) as facts:
                    async for fact in facts:
                        self.failures = self.stalls = 0
                        yield fact
                        del fact  # a snapshot is large, and the next event may be minutes away
            except errors.CredentialReplaced:
                continue
            except errors.KubeError as error:
                problem = error
            except asyncio.CancelledError as error:
                if is_cancellation_requested():
                    raise
                # The transport cancelled the request when its connections closed; this task itself was not cancelled.
                # If it ended here, its reader would wait for ever, because a cancelled task is not reported.
                problem = errors.Unreachable("the request was cancelled when its connection was closed")
                problem.__cause__ = error
            lasted = asyncio.get_running_loop().time() - started
            if lasted > self.options.backoff.limit:
                self.failures = 0  # without an event it was well, too
            if problem is None and lasted < SHORTEST_SESSION:
                problem = errors.Unreachable("the server ended the watch immediately")
            if problem is not None:
                await self._back_off(problem)

    async def _session(self) -> AsyncGenerator[WatchUpdate, None]:
        self.changed = self.changed if self.version else ""  # a restored server gives revisions again
        if not self.version and not self.streams:
            snapshot = await self._list()
            self.version = snapshot.resource_version
            yield snapshot
            del snapshot
        self.initial = None if self.version else PackedObjects()
        async with aclosing(watch_events(self.client, self.resource, self._query())) as events:
            async for event in events:
                fact = self._collect(event) if self.initial is not None else self._take(event)
                if fact is not None:
                    yield fact
                del fact

    def _query(self) -> WatchQuery:
        return replace(
            self.scope,
            resource_version=self.version,
            send_initial_events=not self.version,
            timeout_seconds=self.options.random.randint(*self.options.session),
            stall_after=self.options.stall_after,
            initial_events_timeout=self.options.initial_events_timeout,
            collect_for=COLLECT_FOR if self.resource in self.options.collect else 0.0,
        )

    async def _list(self) -> Snapshot:
        scope = self.scope
        found = await self.client.list_raw(
            self.resource,
            namespace=scope.namespace,
            labels=scope.labels,
            fields=scope.fields,
            limit=self.options.page_size,
            reduce=self.options.reduce,
        )
        return Snapshot(found.items, found.resource_version)

    def _collect(self, event: WatchEvent) -> WatchUpdate | None:
        assert self.initial is not None
        if event.type != "BOOKMARK":  # changes may arrive before the end of the initial events
            kept = None if event.type == "DELETED" else self.options.reduce(event.raw)
            if kept is None:
                self.initial.remove(event.key)
            else:
                self.initial.put(event.key, kept)
        elif event.ends_initial_events:
            items, self.initial = self.initial, None
            self.version = event.resource_version
            return Snapshot(items, event.resource_version)
        else:
            raise _RelistRequired("the server does not stream its initial state")
        return None

    def _take(self, event: WatchEvent) -> WatchUpdate | None:
        self.refused_watches = 0
        if is_older(event.resource_version, self.version):
            raise _RelistRequired("the server's revision went back: it was restored, or events came out of order")
        self.version = event.resource_version or self.version
        if event.type == "BOOKMARK":
            return Bookmark(self.version)
        repeated = event.resource_version == self.changed  # a bookmark of that version repeats nothing
        self.changed = event.resource_version
        return None if repeated else ObjectChange(event.type, event.raw, event.resource_version)

    async def _back_off(self, error: errors.KubeError) -> None:
        self.failures += 1
        self.stalls += isinstance(error, errors.Stalled)
        if self.initial is not None and is_unable_to_stream(error):
            self.streams = self.client.server.supports_watch_list = False
            self.initial = None
            return
        if isinstance(error, errors.Forbidden) and self._is_only_listing_allowed():
            if self.refused_watches == REFUSED_WATCHES_BEFORE_POLLING:
                self.options.on_error(error)
            self.version = ""
            await asyncio.sleep(self.options.poll_every * self.options.random.uniform(0.8, 1.2))
            return
        self.initial = None
        if is_relist_required(error, failures=self.failures, stalls=self.stalls):
            self.version = ""
        self.options.on_error(error)
        pause = self.options.backoff.delay(self.failures, self.options.random)
        asked = error.retry_after if isinstance(error, errors.ApiStatusError) else None
        await asyncio.sleep(pause + min(asked or 0.0, self.options.backoff.limit))

    def _is_only_listing_allowed(self) -> bool:
        """Count a refusal, and let list and watch take turns: a server does not say which verbs it grants."""
        if self.initial is not None:
            self.streams = self.failures % REFUSALS_BEFORE_RELIST != 0
        elif not self.version:
            self.streams = self._may_stream()
        else:
            self.refused_watches += 1
            return self.refused_watches >= REFUSED_WATCHES_BEFORE_POLLING
        return False


def is_unable_to_stream(error: errors.KubeError) -> bool:
    """Whether a server refuses or ignores the request for its initial state, so that it must be listed instead.

    A server whose etcd cannot report progress responds with 500; one with another problem responds so to the list, too.
    """
    return isinstance(error, errors.BadRequest | errors.Invalid | errors.ServerError | errors.Stalled | _RelistRequired)


def is_older(version: str, than: str) -> bool:
    """Whether a revision lies before another; revisions that are not numbers are never compared."""
    numbers = version.isdecimal() and than.isdecimal() and len(version) + len(than) < 100
    return numbers and int(version) < int(than)


def is_relist_required(error: errors.KubeError, *, failures: int, stalls: int) -> bool:
    """Whether the watch cannot continue from the last revision.

    A restored server may wait silently for a revision that it has not reached yet, hence the count of stalls.
    """
    if isinstance(error, errors.Gone | errors.BadRequest | _RelistRequired):
        return True
    if isinstance(error, errors.Stalled):
        return stalls >= STALLS_BEFORE_RELIST
    if not isinstance(error, errors.ApiStatusError):
        return False
    is_ahead = any(cause.get("reason") == "ResourceVersionTooLarge" for cause in errors.causes_of(error))
    return is_ahead or failures >= REFUSALS_BEFORE_RELIST
