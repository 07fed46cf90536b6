"""A store for tests and simulations: nothing survives the process, nothing ever waits."""

from __future__ import annotations

from collections.abc import Callable

from watchword.apiserver.store.errors import RevisionConflict
from watchword.apiserver.store.model import Listener, Record, StoreChange, StoreEvent
from watchword.apiserver.store.state import Bucket, CommittedState


class MemoryStore:
    """Commits at once."""

    def __init__(self) -> None:
        self._state = CommittedState()

    def copy(self) -> MemoryStore:
        """Return another store with the same records, without their history and listeners."""
        other = MemoryStore()
        for name, bucket in self._state.buckets().items():
            records, paths = dict(bucket.records), list(bucket.paths)
            other._state.buckets()[name] = Bucket(records, paths, forgotten=self.revision)
        other._state.revision = self.revision
        return other

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self._state.revision

    def get(self, bucket: str, path: str) -> Record | None:
        """Return the current record."""
        return self._state.get(bucket, path)

    def latest(self, bucket: str, path: str) -> Record | None:
        """Return the current record: nothing is ever on its way."""
        return self._state.get(bucket, path)

    def records(self, bucket: str, namespace: str = "") -> list[Record]:
        """Return the current records in order."""
        return self._state.records(bucket, namespace)

    def buckets(self) -> list[str]:
        """Return the names of all buckets."""
        return list(self._state.buckets())

    def snapshot(self, bucket: str, revision: int, namespace: str = "") -> list[Record]:
        """Return the records of a past revision."""
        return self._state.snapshot(bucket, revision, namespace)

    def events_after(self, bucket: str, revision: int) -> list[StoreEvent]:
        """Return the changes since a revision."""
        return self._state.events_after(bucket, revision)

    def subscribe(self, bucket: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each change."""
        return self._state.subscribe(bucket, listener)

    async def write(self, change: StoreChange) -> Record:
        """Commit one change before returning."""
        previous = self._state.get(change.bucket, change.path)
        event = decide_event(change, previous, self._state.revision + 1)
        self._state.commit(event)
        return event.record

    async def flush(self) -> None:
        """Return: nothing is ever on its way."""

    async def compact(self, revision: int) -> None:
        """Erase superseded revisions."""
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
