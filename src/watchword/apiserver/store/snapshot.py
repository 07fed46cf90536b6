"""A data file in one piece: its format and checksums, copies of an open one, and which file was last in use."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import orjson
from msgspec import Struct, field
from msgspec.structs import asdict

from watchword.api.sensitive import HiddenFields
from watchword.apiserver.store.model import StoreCorrupt, StoreIncomplete, StoreOpenError
from watchword.pki.encryption import is_encrypted

APPLICATION_ID = 0x57774B56  # marks the file as ours, so that no other database is taken for one
EPOCH_GAP = 1_000_000
"""Revisions skipped after a restore, so that no client has seen any of the next ones."""
ACCEPT_LOSS = "to go on without these writes, remove state.db.mark and make state.db-wal an empty file"
_MARKER_BYTES = 100
_JOURNAL_MODE = slice(18, 20)  # two bytes of the header; 1 says that there is no write-ahead log beside the file
_CURRENT_OBJECTS = """
SELECT revision, bucket, path, deleted, body
FROM (SELECT max(revision) AS revision, bucket, path, deleted, body FROM log GROUP BY bucket, path) WHERE NOT deleted
"""
_APPEND = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)"
_REVISION = """
SELECT max((SELECT coalesce(max(revision), 0) FROM log),
           (SELECT coalesce(max(value), 0) FROM facts WHERE name = 'revision'))
"""


class StoreFormat(Struct, frozen=True):
    """A version of the data file, and the SQL that leads from each earlier version to the next."""

    version: int
    migrations: Mapping[int, str] = field(default_factory=dict)


_ADD_CHECKSUMS = """
ALTER TABLE log ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE log SET checksum = checksum_of_json(revision, bucket, path, deleted, body);
"""
CURRENT = StoreFormat(2, {1: _ADD_CHECKSUMS})


class Row(HiddenFields, frozen=True):
    """One revision as the log stores it."""

    hidden = ("body",)

    revision: int
    bucket: str
    path: str
    deleted: bool
    body: bytes

    @property
    def columns(self) -> tuple[int, str, str, int, bytes, int]:
        """What a row of the table contains; the checksum finds a byte that another program or the disk changed."""
        values = (self.revision, self.bucket, self.path, int(self.deleted), self.body)
        return *values, checksum_of(*values)


def checksum_of(revision: int, bucket: str, path: str, deleted: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(f"{revision} {bucket} {path} {deleted}".encode()))


def _checksum_of_json(*columns: Any) -> int:
    """Return the checksum of a row that has none yet, once its body was found to be what a server stores."""
    revision, bucket, path, deleted, body = columns
    try:
        sound = is_encrypted(body) or isinstance(orjson.loads(body), dict)
    except orjson.JSONDecodeError:
        sound = False
    if not sound:
        raise StoreCorrupt(f"{bucket}/{path} (revision {revision}) is not a JSON object")
    return checksum_of(revision, bucket, path, deleted, body)


def rows_of(db: apsw.Connection, name: str) -> Iterator[Row]:
    """Return every revision in order; `StoreCorrupt` for one that is not as it was written."""
    query = "SELECT revision, bucket, path, deleted, body, checksum FROM log ORDER BY revision"
    for revision, bucket, path, deleted, body, checksum in db.execute(query):
        if checksum_of(revision, bucket, path, deleted, body) != checksum:
            raise StoreCorrupt(
                f"{name} is damaged: {bucket}/{path} (revision {revision}) is not as it was written; nothing was "
                f"changed; move the file aside and restore a backup"
            )
        yield Row(revision, bucket, path, bool(deleted), body)


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
    db.create_scalar_function("checksum_of_json", _checksum_of_json, 5)
    try:
        with db:  # the new version and what it means commit together
            for version in range(found, current.version):
                db.execute(current.migrations[version])
            db.execute(f"PRAGMA user_version = {current.version}")
    except StoreCorrupt as cause:
        raise StoreCorrupt(
            f"{name} is damaged: {cause}; nothing was changed; move the file aside and restore a backup"
        ) from cause
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


class NewEpoch(NamedTuple):
    """Why revisions of before cannot be continued from, as an Event says it."""

    type: str
    reason: str
    note: str


def decide_epoch(now: RestoreMarker, last: RestoreMarker | None, *, was_open: bool, wal: int) -> NewEpoch | None:
    """Decide whether the file is the one of last time with everything it had; `wal` is the size of its log.

    `StoreIncomplete` when the write-ahead log was emptied: it can be put back.
    """
    if now.revision == 0 and (last is None or last.revision == 0):
        return None  # a fresh file
    if last is None or (now.device, now.inode) != (last.device, last.inode):
        note = "the data is from a backup or a copy: later writes are undone, what was deleted exists again"
        return NewEpoch("Normal", "DataRestored", note)
    lost = last.revision - now.revision
    if lost <= 0:
        return None
    if not was_open:
        replaced = f"an earlier copy of state.db was put in its place: {lost} later writes are undone"
        return NewEpoch("Normal", "DataRestored", replaced)
    if not wal:
        raise StoreIncomplete(
            f"state.db-wal is empty, and the last {lost} writes are missing: put it back, or restore a backup; "
            f"{ACCEPT_LOSS}"
        )
    damaged = (
        f"state.db-wal was cut or damaged: the last {lost} writes (revisions {now.revision + 1} to {last.revision}) "
        f"were acknowledged and are lost; check denials and deletions of that time"
    )
    return NewEpoch("Warning", "DataLost", damaged)


def read_marker(path: Path) -> RestoreMarker | None:
    try:
        return RestoreMarker(**orjson.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def write_marker(path: Path, mark: RestoreMarker) -> None:
    with open_marker(path) as descriptor:
        put_marker(descriptor, mark)


@contextmanager
def open_marker(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def put_marker(descriptor: int, mark: RestoreMarker) -> None:
    """Overwrite the marker in place, without waiting for the disk: it is never ahead of the data file."""
    os.pwrite(descriptor, orjson.dumps(asdict(mark)).ljust(_MARKER_BYTES), 0)


class SnapshotSummary(HiddenFields, frozen=True):
    """What a data file holds."""

    hidden = ("rows",)

    version: int
    revision: int
    rows: Mapping[str, Row]  # `plural.group/namespace/name` → the object as it is stored


def copy_database(db: apsw.Connection) -> bytes:
    """Return a data file with everything that is committed; it needs no write-ahead log beside it."""
    copy = apsw.Connection(":memory:")
    try:
        with copy.backup("main", db, "main") as backup:
            backup.step(-1)
        copy.execute("INSERT OR REPLACE INTO facts VALUES ('open', 0)")
        return _serialized(copy)
    finally:
        copy.close()


def read_snapshot(data: bytes, name: str) -> SnapshotSummary:
    """Return what a copied data file holds; `StoreOpenError` when it is none, damaged, or newer than this release."""
    with _loaded(data, name) as (db, version):
        for _ in rows_of(db, name):
            pass  # each is compared with its checksum
        rows = {f"{row[1]}/{row[2]}": Row(*row) for row in db.execute(_CURRENT_OBJECTS)}
        return SnapshotSummary(version, int(db.execute(_REVISION).get), rows)


def extend_snapshot(data: bytes, name: str, rows: Iterable[Row]) -> bytes:
    """Return a copied data file with more revisions."""
    with _loaded(data, name) as (db, _):
        with db:
            db.executemany(_APPEND, [row.columns for row in rows])
        return _serialized(db)


@contextmanager
def _loaded(data: bytes, name: str) -> Iterator[tuple[apsw.Connection, int]]:
    """Open a copy in memory, in the present format; also return the version that it has."""
    db = apsw.Connection(":memory:")
    try:
        db.deserialize("main", data)
        version = require_known_format(db, name, CURRENT)
        if db.execute("PRAGMA quick_check(1)").get != "ok":
            raise StoreCorrupt(f"{name} is damaged: use another backup")
        migrate(db, name)
        yield db, version
    except apsw.Error as cause:
        raise StoreOpenError(f"{name} is not a data file of watchword: {cause}") from cause
    finally:
        db.close()


def _serialized(db: apsw.Connection) -> bytes:
    data = bytearray(db.serialize("main"))
    data[_JOURNAL_MODE] = b"\x01\x01"
    return bytes(data)
