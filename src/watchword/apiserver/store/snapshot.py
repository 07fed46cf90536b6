"""A data file in one piece: copied from an open database, and read without opening it for writing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import apsw
import orjson
from msgspec import Struct, field
from msgspec.structs import asdict

from watchword.api.sensitive import HiddenFields
from watchword.apiserver.store.model import StoreCorrupt, StoreOpenError

APPLICATION_ID = 0x57774B56  # marks the file as ours, so that no other database is taken for one
EPOCH_GAP = 1_000_000
"""Revisions skipped after a restore, so that no client has seen any of the next ones."""
_JOURNAL_MODE = slice(18, 20)  # two bytes of the header; 1 says that there is no write-ahead log beside the file
_CURRENT_OBJECTS = """
SELECT bucket, path, revision FROM (SELECT bucket, path, max(revision) AS revision, deleted FROM log GROUP BY 1, 2)
WHERE NOT deleted
"""
_REVISION = """
SELECT max((SELECT coalesce(max(revision), 0) FROM log),
           (SELECT coalesce(max(value), 0) FROM facts WHERE name = 'revision'))
"""


class StoreFormat(Struct, frozen=True):
    """A version of the data file, and the SQL that leads from each earlier version to the next."""

    version: int
    migrations: Mapping[int, str] = field(default_factory=dict)


CURRENT = StoreFormat(1)


def require_known_format(db: apsw.Connection, name: str, current: StoreFormat) -> int:
    """Return the version of a file that this release can read; `StoreOpenError` for any other file."""
    if db.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise StoreOpenError(f"{name} is a database of another program: choose another data directory")
    version = int(db.execute("PRAGMA user_version").get)
    if version > current.version:
        raise StoreOpenError(
            f"{name} has format {version}, and this release of watchword knows formats up to {current.version}: use "
            f"the release that wrote it, or `watchword restore` a backup that was made before the upgrade"
        )
    missing = [step for step in range(version, current.version) if step not in current.migrations]
    if missing:
        raise StoreOpenError(f"{name} has format {version}, which this release cannot migrate: use an earlier release")
    return version


def migrate(db: apsw.Connection, name: str, current: StoreFormat = CURRENT) -> int:
    """Bring a file to the current version in one transaction; return the version that it had."""
    found = require_known_format(db, name, current)
    if found == current.version:
        return found
    with db:  # the new version and what it means commit together
        for version in range(found, current.version):
            db.execute(current.migrations[version])
        db.execute(f"PRAGMA user_version = {current.version}")
    return found


class RestoreMarker(Struct, frozen=True):
    """Which file was last in use and its last revision; stored next to it."""

    device: int
    inode: int
    revision: int

    @classmethod
    def of(cls, path: Path, revision: int) -> RestoreMarker:
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
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, orjson.dumps(asdict(mark)))
    finally:
        os.close(descriptor)
    fresh.replace(path)


class SnapshotSummary(HiddenFields, frozen=True):
    """What a data file holds."""

    hidden = ("objects",)

    version: int
    revision: int
    objects: Mapping[str, int]  # `plural.group/namespace/name` → its revision


def copy_database(db: apsw.Connection) -> bytes:
    """Return a data file with everything that is committed; it needs no write-ahead log beside it."""
    copy = apsw.Connection(":memory:")
    try:
        with copy.backup("main", db, "main") as backup:
            backup.step(-1)
        copy.execute("INSERT OR REPLACE INTO facts VALUES ('open', 0)")
        data = bytearray(copy.serialize("main"))
    finally:
        copy.close()
    data[_JOURNAL_MODE] = b"\x01\x01"
    return bytes(data)


def read_snapshot(data: bytes, name: str) -> SnapshotSummary:
    """Return what a copied data file holds; `StoreOpenError` when it is none, damaged, or newer than this release."""
    db = apsw.Connection(":memory:")
    try:
        db.deserialize("main", data)
        require_known_format(db, name, CURRENT)
        if db.execute("PRAGMA quick_check(1)").get != "ok":
            raise StoreCorrupt(f"{name} is damaged: use another backup")
        objects = {f"{bucket}/{path}": revision for bucket, path, revision in db.execute(_CURRENT_OBJECTS)}
        return SnapshotSummary(int(db.execute("PRAGMA user_version").get), int(db.execute(_REVISION).get), objects)
    except apsw.Error as cause:
        raise StoreOpenError(f"{name} is not a data file of watchword: {cause}") from cause
    finally:
        db.close()
