"""Detects that a data file was restored from a backup: clients may have seen later revisions."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
from msgspec import Struct
from msgspec.structs import asdict

EPOCH_GAP = 1_000_000
"""Revisions skipped after a restore, so that no client has seen any of the next ones."""


class RestoreMarker(Struct, frozen=True):
    """Which file was last in use and its last revision; stored next to it."""

    device: int
    inode: int
    revision: int

    @classmethod
    def of(cls, path: Path, revision: int) -> RestoreMarker:
        """Return the mark of the file as it is."""
        found = path.stat()
        return cls(found.st_dev, found.st_ino, revision)


def is_restored(now: RestoreMarker, last: RestoreMarker | None) -> bool:
    """Whether the file is another one than last time, or has lost revisions it had."""
    if now.revision == 0:
        return False  # a fresh file
    return last is None or (now.device, now.inode) != (last.device, last.inode) or now.revision < last.revision


def read_marker(path: Path) -> RestoreMarker | None:
    """Return the last mark, None when there is none that can be read."""
    try:
        return RestoreMarker(**orjson.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def write_marker(path: Path, mark: RestoreMarker) -> None:
    """Put the mark in place in one step."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, orjson.dumps(asdict(mark)))
    finally:
        os.close(descriptor)
    fresh.replace(path)
