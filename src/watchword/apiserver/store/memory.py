"""A store for tests and simulations: nothing survives the process, nothing ever waits."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable

from msgspec import Struct, field

from watchword.apiserver.store.model import Compacted, Listener, Record, RevisionConflict, StoreChange, StoreEvent

# The longest history of one bucket; beyond it the oldest changes are dropped before compaction.
WINDOW_EVENTS = 10_000
WINDOW_BYTES = 32 * 1024 * 1024


class Bucket(Struct):
    """Records, recent changes and listeners of one kind."""

    records: dict[str, Record] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)  # sorted
    past: deque[StoreEvent] = field(default_factory=deque)
    past_bytes: int = 0
    forgotten: int = 0  # changes up to this revision are no longer in `past`
    listeners: dict[object, Listener] = field(default_factory=dict)

    def apply(self, event: StoreEvent) -> None:
        self.restore(event)
        self.past.append(event)
        self.past_bytes += len(event.record.body)

    def restore(self, event: StoreEvent) -> None:
        path = event.record.path
        if event.deleted:
            if self.records.pop(path, None) is not None:
                del self.paths[bisect_left(self.paths, path)]
        else:
            if path not in self.records:
                insort(self.paths, path)
            self.records[path] = event.record

    def window(self, namespace: str) -> list[str]:
        if not namespace:
            return self.paths
        # "0" is the character after "/": the half-open range contains exactly the paths under the namespace.
        return self.paths[bisect_left(self.paths, f"{namespace}/") : bisect_left(self.paths, f"{namespace}0")]

    def forget_until(self, revision: int) -> list[int]:
        """Drop changes up to a revision; return the revisions whose records can no longer be requested."""
        garbage = []
        while self.past and self.past[0].revision <= revision:
            garbage.extend(self._forget_oldest())
        self.forgotten = max(self.forgotten, revision)
        return garbage

    def trim(self) -> list[int]:
        """Drop the oldest changes beyond the window; return revisions as `forget_until` does."""
        garbage = []
        while len(self.past) > WINDOW_EVENTS or (self.past_bytes > WINDOW_BYTES and len(self.past) > 1):
            garbage.extend(self._forget_oldest())
        return garbage

    def _forget_oldest(self) -> list[int]:
        event = self.past.popleft()
        self.past_bytes -= len(event.record.body)
        self.forgotten = event.revision
        garbage = [event.previous.revision] if event.previous is not None else []
        return [*garbage, event.revision] if event.deleted else garbage


class CommittedState:
    """Everything committed. Not durable: stores put it behind their log."""

    def __init__(self) -> None:
        self.revision = 0
        self.floor = 0  # nothing before it may be continued from, in any bucket
        self.buckets: defaultdict[str, Bucket] = defaultdict(Bucket)

    def get(self, bucket: str, path: str) -> Record | None:
        found = self.buckets.get(bucket)
        return found.records.get(path) if found is not None else None

    def records(self, bucket: str, namespace: str = "") -> list[Record]:
        found = self.buckets.get(bucket)
        if found is None:
            return []
        records = found.records
        return [records[path] for path in found.window(namespace)]

    def snapshot(self, bucket: str, revision: int, namespace: str = "") -> list[Record]:
        found = self._reaching(bucket, revision)
        undone: dict[str, Record | None] = {}
        for event in reversed(found.past):
            if event.revision <= revision:
                break
            undone[event.record.path] = event.previous
        if not undone:
            return self.records(bucket, namespace)
        prefix = f"{namespace}/" if namespace else ""
        records = {path: found.records[path] for path in found.window(namespace)}
        for path, previous in undone.items():
            if not path.startswith(prefix):
                continue
            records.pop(path, None)
            if previous is not None:
                records[path] = previous
        return [records[path] for path in sorted(records)]

    def events_after(self, bucket: str, revision: int) -> list[StoreEvent]:
        found = self._reaching(bucket, revision)
        after: list[StoreEvent] = []
        for event in reversed(found.past):
            if event.revision <= revision:
                break
            after.append(event)
        after.reverse()
        return after

    def _reaching(self, name: str, revision: int) -> Bucket:
        bucket = self.buckets[name]
        oldest = max(bucket.forgotten, self.floor)
        if revision < oldest:
            raise Compacted(revision, oldest)
        return bucket

    def subscribe(self, bucket: str, listener: Listener) -> Callable[[], None]:
        handle = object()
        listeners = self.buckets[bucket].listeners
        listeners[handle] = listener

        def stop() -> None:
            listeners.pop(handle, None)

        return stop

    def commit(self, event: StoreEvent) -> list[int]:
        """Make a change current and call the listeners; return revisions that may be erased from a log."""
        bucket = self.buckets[event.record.bucket]
        bucket.apply(event)
        self.revision = event.revision
        garbage = bucket.trim()
        for listener in tuple(bucket.listeners.values()):
            listener(event)
        event.frames.clear()  # what watchers needed is in their queues now
        return garbage

    def compact(self, revision: int) -> list[int]:
        """Drop the history of every bucket up to a revision; return revisions that may be erased."""
        upto = min(revision, self.revision)
        return [number for bucket in self.buckets.values() for number in bucket.forget_until(upto)]


class CommittedReads:
    """The reads of a store that has its committed state in memory."""

    _state: CommittedState

    @property
    def revision(self) -> int:
        return self._state.revision

    def get(self, bucket: str, path: str) -> Record | None:
        return self._state.get(bucket, path)

    def records(self, bucket: str, namespace: str = "") -> list[Record]:
        return self._state.records(bucket, namespace)

    def snapshot(self, bucket: str, revision: int, namespace: str = "") -> list[Record]:
        return self._state.snapshot(bucket, revision, namespace)

    def events_after(self, bucket: str, revision: int) -> list[StoreEvent]:
        return self._state.events_after(bucket, revision)

    def subscribe(self, bucket: str, listener: Listener) -> Callable[[], None]:
        return self._state.subscribe(bucket, listener)


class MemoryStore(CommittedReads):
    """Commits at once."""

    def __init__(self) -> None:
        self._state = CommittedState()

    def copy(self) -> MemoryStore:
        other = MemoryStore()
        for name, bucket in self._state.buckets.items():
            records, paths = dict(bucket.records), list(bucket.paths)
            other._state.buckets[name] = Bucket(records, paths, forgotten=self.revision)
        other._state.revision = self.revision
        return other

    def restore(self, earlier: MemoryStore) -> None:
        """Continue with the records of an earlier copy, as after a restored backup: no revision is used twice."""
        revision, state = self.revision + 1, earlier.copy()._state  # noqa: SLF001 - of the same class
        for bucket in state.buckets.values():
            bucket.forgotten = revision
        state.revision = revision
        self._state = state

    def latest(self, bucket: str, path: str) -> Record | None:
        return self._state.get(bucket, path)

    def buckets(self) -> list[str]:
        return list(self._state.buckets)

    async def write(self, change: StoreChange) -> Record:
        previous = self._state.get(change.bucket, change.path)
        event = decide_event(change, previous, self._state.revision + 1)
        self._state.commit(event)
        return event.record

    async def flush(self) -> None:
        """Return at once: no write is ever pending."""

    async def compact(self, revision: int) -> None:
        self._state.compact(revision)

    async def close(self) -> None:
        """Return: there is nothing to release."""


def decide_event(change: StoreChange, previous: Record | None, revision: int) -> StoreEvent:
    """Return the event of a change at a revision; raise `RevisionConflict` when the writer read another revision."""
    actual = previous.revision if previous is not None else 0
    if actual != change.expected:
        raise RevisionConflict(change.expected, actual)
    record = Record(change.bucket, change.path, revision, change.render(revision))
    return StoreEvent(record, previous, deleted=change.deleted)
