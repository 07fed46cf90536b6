"""The errors of a store.

StoreError
├── RevisionConflict   the object is not at the revision that the writer expected
├── Compacted          the requested revision is compacted
├── WriteFailed        the write is not durable and was undone; reads still work
│   └── StorageFull    … because the disk or the quota is full
└── StoreOpenError         the data file cannot be used; nothing was changed
    ├── StoreCorrupt        … because its content is damaged
    ├── StoreMissing        … because it is gone or empty, though there was one
    ├── StoreIncomplete     … because it was copied without its write-ahead log
    └── StoreLocked         … because another process uses it
"""

from __future__ import annotations


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
    """There was a data file, and it is gone or empty; a blank one would pass for the truth."""


class StoreIncomplete(StoreOpenError):
    """The data file was copied from a running server, and what was written last is missing."""


class StoreLocked(StoreOpenError):
    """Another process has the data file open."""
