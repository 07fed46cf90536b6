"""One watch: the present state as requested, then every selected change, until the timeout."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

import orjson
from msgspec import Struct

from watchword.api.http import Push
from watchword.api.meta import Object, Resource
from watchword.apiserver.serving.errors import expired, status_object
from watchword.apiserver.serving.model import ApiError, ResourceKind
from watchword.apiserver.serving.object_storage import Matcher, ObjectStorage, bucket_of, encode_object
from watchword.apiserver.store.model import Compacted, Record, Store, StoreEvent

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
ObjectTransform = Callable[[Object], Object]
"""Turns an object into what the client asked to see of it."""
QUEUE_FRAMES = 2_000
QUEUE_BYTES = 16 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
BOOKMARK_EVERY = 60.0
LAST_BOOKMARK_BEFORE_END = 2.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # between two pushes


class EventReceiver(Protocol):
    """A receiver of the changes of one object, of one namespace, or of all."""

    namespace: str
    path: str  # of the only object that it selects; empty: several

    def receive(self, event: StoreEvent) -> None:
        """Receive one change; must neither wait nor raise."""


class WatchBroadcaster:
    """Keeps watchers by bucket and by what they select, so that a change is delivered only to those that select it.

    Thousands of agents watch one object each: a change of one must not cost a comparison for every other.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._watched: dict[str, dict[str, dict[int, EventReceiver]]] = {}
        self._stops: dict[str, Callable[[], None]] = {}
        self._pushing: list[Watch] = []
        self._push_after = 0.0

    def add(self, bucket: str, receiver: EventReceiver) -> None:
        if bucket not in self._watched:
            self._watched[bucket] = {}
            self._stops[bucket] = self._store.subscribe(bucket, self._deliver)
        self._watched[bucket].setdefault(_selection(receiver), {})[id(receiver)] = receiver

    def remove(self, bucket: str, receiver: EventReceiver) -> None:
        """Deliver no more; removing twice is harmless."""
        selections, selection = self._watched.get(bucket, {}), _selection(receiver)
        receivers = selections.get(selection, {})
        receivers.pop(id(receiver), None)
        if not receivers:
            selections.pop(selection, None)

    def count(self) -> int:
        return sum(len(receivers) for selections in self._watched.values() for receivers in selections.values())

    def push_soon(self, watch: Watch) -> None:
        """Let a watch push what it has queued, after a pause twice as long as the last push took, bounded.

        There is no pause where watchers are few. Where they are many, requests get their turn meanwhile, and each
        watcher gets the changes of the pause in one write.
        """
        if not self._pushing:
            loop, pause = asyncio.get_running_loop(), self._push_after - self._clock()
            if pause > SHORTEST_PAUSE:
                loop.call_later(pause, self._push)
            else:
                loop.call_soon(self._push)
        self._pushing.append(watch)

    def _push(self) -> None:
        began = self._clock()
        watches, self._pushing = self._pushing, []
        for watch in watches:
            watch.push_queued()
        ended = self._clock()
        self._push_after = ended + min(LONGEST_PAUSE, 2 * (ended - began))

    def _deliver(self, event: StoreEvent) -> None:
        selections, path = self._watched[event.record.bucket], event.record.path
        namespace = path.rpartition("/")[0]
        for selection in ("", namespace, f"={path}") if namespace else ("", f"={path}"):
            for receiver in tuple(selections.get(selection, {}).values()):
                receiver.receive(event)


def _selection(receiver: EventReceiver) -> str:
    """Return under which key a receiver is kept; no namespace begins with an equals sign."""
    return f"={receiver.path}" if receiver.path else receiver.namespace


def encode_event(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def bookmark(resource: Resource, revision: int, *, initial_events_end: bool = False) -> Object:
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}


def encode_error_event(error: ApiError) -> bytes:
    return encode_event("ERROR", orjson.dumps(status_object(error)))


class EventEncoder(Struct, frozen=True):
    """Encodes the events of one watch; plain JSON is shared with every other watch of the same version."""

    kind: ResourceKind
    objects: ObjectStorage
    show: ObjectTransform | None = None  # None: the object itself, as plain JSON

    def record(self, word: str, record: Record) -> bytes:
        if self.show is None:
            return encode_event(word, self.objects.wire(self.kind, record))
        return encode_event(word, orjson.dumps(self.show(self.objects.decode(self.kind, record))))

    def change(self, word: str, event: StoreEvent) -> bytes:
        if self.show is not None:
            return self.record(word, event.record)
        shared = (word, self.kind.resource.version, self.kind.resource.group)
        encoded = event.frames.get(shared)
        if encoded is None:
            encoded = event.frames[shared] = self.record(word, event.record)
        return encoded

    def deleted_by_selector(self, event: StoreEvent) -> bytes:
        """Return DELETED for an object that no longer matches: its last matching state, the change's revision."""
        assert event.previous is not None
        obj = self.objects.decode(self.kind, event.previous)
        obj["metadata"]["resourceVersion"] = str(event.revision)
        if self.show is not None:
            return encode_event("DELETED", orjson.dumps(self.show(obj)))
        return encode_event("DELETED", encode_object(obj))

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        obj = bookmark(self.kind.resource, revision, initial_events_end=initial_events_end)
        return encode_event("BOOKMARK", orjson.dumps(obj if self.show is None else self.show(obj)))


class WatchPlan(Struct, frozen=True):
    """The options of a watch."""

    start: int  # changes after this revision
    initial: list[Record] | None  # the present state to show first
    bookmarks: bool
    initial_events_end: bool  # mark the end of the initial state
    seconds: float
    bookmark_every: float = BOOKMARK_EVERY


class Watch:
    """An async iterator of encoded events.

    It subscribes only while it is iterated: an unread stream holds no memory.
    """

    def __init__(self, plan: WatchPlan, matcher: Matcher, encoder: EventEncoder, broadcaster: WatchBroadcaster) -> None:
        self.namespace = matcher.namespace
        self.path = matcher.path
        self._plan = plan
        self._matcher = matcher
        self._selective = matcher.selective
        self._encoder = encoder
        self._broadcaster = broadcaster
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._overflowed = False  # or failed
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._end = 0.0
        self._next_bookmark = math.inf
        self._push: Push | None = None

    def attach(self, push: Push) -> None:
        """Push events while the stream waits: 12 µs for each watcher and event over TLS instead of 16."""
        self._push = push

    def receive(self, event: StoreEvent) -> None:
        """Queue one change; a watcher that cannot follow is cut off after what it already has."""
        if self._overflowed:
            return
        try:
            encoded = self._encode(event)
        except Exception as error:  # noqa: BLE001 - the watch ends, and neither the write nor another watch with it
            self._loop.call_exception_handler({"message": "a watch failed", "exception": error})
            self._overflowed, encoded = True, None
            self._notify_waiter()
        if encoded is None:
            return
        self._queue.append(encoded)
        self._queued += len(encoded)
        self._overflowed = len(self._queue) >= QUEUE_FRAMES or self._queued >= QUEUE_BYTES
        if self._push is None or self._overflowed:
            self._notify_waiter()
        elif len(self._queue) == 1:
            self._broadcaster.push_soon(self)

    def push_queued(self) -> None:
        """Push the queue while the stream waits for it; a stream that does not wait reads it itself."""
        while self._queue and self._push is not None and self._waiter is not None and not self._waiter.done():
            chunk = self._drain()
            if not self._push(chunk):
                self._queue.appendleft(chunk)
                self._queued += len(chunk)
                self._notify_waiter()

    async def stream(self) -> AsyncIterator[bytes]:
        store, bucket = self._matcher.objects.store, bucket_of(self._matcher.kind)
        try:
            missed = store.events_after(bucket, self._plan.start)
        except Compacted as gone:
            yield encode_error_event(expired(str(gone)))
            return
        self._broadcaster.add(bucket, self)
        try:
            for chunk in _chunks(self._opening(missed)):
                yield chunk
            self._begin()
            while (ready := self._ready(store)) is not None:
                if ready:
                    yield ready
                else:
                    await self._wait_for_event()
        finally:
            self._push = None
            self._broadcaster.remove(bucket, self)

    def _begin(self) -> None:
        now, plan = self._loop.time(), self._plan
        self._end = now + plan.seconds
        if plan.bookmarks:
            self._next_bookmark = _next_bookmark(now, self._end, plan.bookmark_every)

    def _opening(self, missed: list[StoreEvent]) -> Iterator[bytes]:
        for record in self._plan.initial or ():
            yield self._encoder.record("ADDED", record)
        if self._plan.initial_events_end:
            yield self._encoder.bookmark(self._plan.start, initial_events_end=True)
        for event in missed:
            if self.namespace and event.record.key.namespace != self.namespace:
                continue
            encoded = self._encode(event)
            event.frames.clear()
            if encoded is not None:
                yield encoded

    def _ready(self, store: Store) -> bytes | None:
        """Return what can be sent now; empty: wait; None: the watch has ended."""
        if self._queue:
            return self._drain()
        now = self._loop.time()
        if self._overflowed or now >= self._end:
            return None
        if now >= self._next_bookmark:
            self._next_bookmark = _next_bookmark(now, self._end, self._plan.bookmark_every)
            return self._encoder.bookmark(store.revision)
        return b""

    async def _wait_for_event(self) -> None:
        self._waiter = self._loop.create_future()
        timer = self._loop.call_at(min(self._end, self._next_bookmark), self._notify_waiter)
        try:
            await self._waiter
        finally:
            timer.cancel()

    def _notify_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _drain(self) -> bytes:
        if len(self._queue) == 1:
            self._queued = 0
            return self._queue.popleft()
        taken, size = [], 0
        while self._queue and size < CHUNK_BYTES:
            taken.append(self._queue.popleft())
            size += len(taken[-1])
        self._queued -= size
        return b"".join(taken)

    def _encode(self, event: StoreEvent) -> bytes | None:
        matcher, encoder = self._matcher, self._encoder
        if not self._selective:
            if event.deleted:
                return encoder.change("DELETED", event)
            return encoder.change("ADDED" if event.previous is None else "MODIFIED", event)
        now = not event.deleted and matcher.matches(event.record)
        before = event.previous is not None and matcher.matches(event.previous)
        if now:
            return encoder.change("MODIFIED" if before else "ADDED", event)
        if not before:
            return None
        return encoder.change("DELETED", event) if event.deleted else encoder.deleted_by_selector(event)


async def error_stream(error: ApiError) -> AsyncIterator[bytes]:
    """Yield a refusal as the only event: once a watch is accepted, errors come in the stream."""
    yield encode_error_event(error)


def _next_bookmark(now: float, end: float, pause: float) -> float:
    last = end - LAST_BOOKMARK_BEFORE_END
    regular = now + pause
    return min(regular, last) if last > now else end + pause


def _chunks(frames: Iterator[bytes]) -> Iterator[bytes]:
    """Join small frames, so that an initial state of thousands is not thousands of writes."""
    pending: list[bytes] = []
    size = 0
    for encoded in frames:
        pending.append(encoded)
        size += len(encoded)
        if size >= CHUNK_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)
