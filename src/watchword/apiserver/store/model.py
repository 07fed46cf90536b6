"""Types of the store: record, change, event, and the store itself."""

from collections.abc import Callable
from typing import Protocol

from msgspec import field

from watchword.api.meta import ObjectKey
from watchword.api.sensitive import HiddenFields


class StoreError(Exception):
    """Base of the errors of this package."""


class RevisionConflict(StoreError):
    """Another writer was first; read again and decide again."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"expected revision {expected}, found {actual}: read the object again")
        self.expected = expected
        self.actual = actual


class Compacted(StoreError):
    """The revision is compacted; list again."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class WriteFailed(StoreError):
    """The write could not be made durable and was undone."""


class StorageFull(WriteFailed):
    """The disk or the quota is full; free space, then write again."""


class StoreOpenError(StoreError):
    """The data file cannot be used as it stands; nothing was changed."""


class StoreCorrupt(StoreOpenError):
    """The data file is damaged; restore a backup."""


class StoreMissing(StoreOpenError):
    """The data file was deleted or emptied; starting with a blank one would hide the loss."""


class StoreIncomplete(StoreOpenError):
    """The data file was copied from a running server, and what was written last is missing."""


class StoreLocked(StoreOpenError):
    """Another process has the data file open."""


def path_of(key: ObjectKey) -> str:
    """Return an object's path in its bucket; the order of paths is the order of lists."""
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


class Record(HiddenFields, frozen=True):
    """One object at one revision, encoded."""

    hidden = ("body",)

    bucket: str  # `plural.group`, the same for all versions of a kind
    path: str
    revision: int
    body: bytes

    @property
    def key(self) -> ObjectKey:
        namespace, _, name = self.path.rpartition("/")
        return ObjectKey(namespace, name)


class StoreEvent(HiddenFields, frozen=True):
    """One committed change. For a deletion `record` is the last state under the revision of the deletion."""

    hidden = ("frames",)

    record: Record
    previous: Record | None
    deleted: bool = False
    frames: dict[object, bytes] = field(default_factory=dict)  # encoded once, shared

    @property
    def revision(self) -> int:
        return self.record.revision


class StoreChange(HiddenFields, frozen=True):
    """One write. `expected` is the revision the writer has read; 0 means the object must not exist."""

    hidden = ("render",)

    bucket: str
    path: str
    expected: int
    render: Callable[[int], bytes]  # encodes the object once its revision is known
    deleted: bool = False


Listener = Callable[[StoreEvent], None]


class Store(Protocol):
    """Stores records. Reads are immediate; a write is visible only after it is durable.

    All methods must be called in the thread of the event loop.
    """

    @property
    def revision(self) -> int: ...

    def get(self, bucket: str, path: str) -> Record | None: ...

    def latest(self, bucket: str, path: str) -> Record | None:
        """Return the record a writer must build on: committed, or pending."""

    def records(self, bucket: str, namespace: str = "") -> list[Record]: ...

    def snapshot(self, bucket: str, revision: int, namespace: str = "") -> list[Record]:
        """Return the records as they were at a revision; raise `Compacted` when that is forgotten."""

    def events_after(self, bucket: str, revision: int) -> list[StoreEvent]:
        """Return the changes since a revision; raise `Compacted` when some are forgotten."""

    def subscribe(self, bucket: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each change as it commits, in order; return how to stop."""

    async def write(self, change: StoreChange) -> Record:
        """Commit one change; raise `RevisionConflict` when `expected` is not the latest revision, or `WriteFailed`."""

    async def flush(self) -> None:
        """Return once every write begun so far is committed or undone."""

    async def compact(self, revision: int) -> None: ...

    async def close(self) -> None:
        """Finish pending writes and release the data file."""
