"""The append-only log on disk: one SQLite file, written by one thread."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import apsw
import orjson
from msgspec import Struct

from watchword.apiserver.store import snapshot
from watchword.apiserver.store.model import (
    StorageFull,
    StoreCorrupt,
    StoreIncomplete,
    StoreLocked,
    StoreOpenError,
    WriteFailed,
)

_SCHEMA = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    bucket TEXT NOT NULL,
    path TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    body BLOB NOT NULL,
    checksum INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE forgotten (bucket TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
_SET_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
_ERASE = "DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))"
VACUUMED_PAGES = 2_000


class FileLock:
    """Holds an advisory lock until released or until the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            raise StoreOpenError(
                f"cannot create the lock {path}: {cause.strerror}: check the directory's mode"
            ) from cause
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as cause:
            os.close(self._descriptor)
            raise StoreLocked(f"{path.with_suffix('')} is in use by another process: stop it first") from cause

    def release(self) -> None:
        os.close(self._descriptor)


class Compaction(Struct, frozen=True):
    """What compaction erases: superseded revisions, and per bucket up to which revision."""

    revisions: Sequence[int]
    forgotten: Sequence[tuple[str, int]]
    revision: int  # the latest one, stored explicitly, because erasing tombstones must not lower the count
    last: bool = True  # afterwards free pages are given back, and the write-ahead log keeps no old ones


class RevisionLog:
    """Reads the whole log once, then appends. Opened on one thread, afterwards used by one other alone."""

    def __init__(
        self,
        path: Path,
        *,
        synchronous: str = "FULL",
        max_bytes: int = 0,
        store_format: snapshot.StoreFormat = snapshot.CURRENT,
    ) -> None:
        self._path = path
        self.committed: Callable[[int], None] = lambda _: None  # called with the last revision of each commit
        wal = path.with_name(f"{path.name}-wal")
        has_wal = wal.exists()
        self.wal_size = wal.stat().st_size if has_wal else 0  # when it was opened
        self._db = _open(path)
        try:
            _prepare(self._db, path, synchronous, max_bytes, store_format)
            self.was_open = bool(self._fact("open"))  # the process that used it last was killed
            if self.was_open and not has_wal:
                raise StoreIncomplete(
                    f"{path} was copied while a server used it, without {path.name}-wal, and lacks the last writes: "
                    f"stop the server before copying, and copy both files; {snapshot.ACCEPT_LOSS}"
                )
        except BaseException:
            self._db.close()
            raise

    def mark_open(self) -> None:
        """Record in the main file that it is in use, so that a copy without the write-ahead log is recognised."""
        self._transact([(_SET_FACT, [("open", 1)])])
        self._drop_old_pages()

    def revision(self) -> int:
        return max(int(self._db.execute("SELECT coalesce(max(revision), 0) FROM log").get), self._fact("revision"))

    def floor(self) -> int:
        """Return the revision before which nothing may be continued from."""
        return self._fact("floor")

    def _fact(self, name: str) -> int:
        return int(self._db.execute("SELECT coalesce(max(value), 0) FROM facts WHERE name = ?", (name,)).get)

    def raise_floor(self, revision: int) -> None:
        """Begin a new epoch: the count continues from here, and watches cannot continue from before."""
        rows = [("revision", revision), ("floor", revision)]
        self._transact([(_SET_FACT, rows)])

    def rows(self) -> Iterator[snapshot.Row]:
        return snapshot.rows_of(self._db, str(self._path))

    def forgotten(self) -> list[tuple[str, int]]:
        return list(self._db.execute("SELECT bucket, revision FROM forgotten"))

    def append(self, rows: Iterable[snapshot.Row]) -> None:
        """Commit revisions together; after any error none of them is stored."""
        values = [row.columns for row in rows]
        try:  # one statement, and so one transaction
            self._db.execute(insert_rows(len(values)), [value for row in values for value in row])
        except Exception as cause:
            raise _refusal(cause) from cause
        self.committed(values[-1][0])

    def replace(self, rows: Iterable[snapshot.Row]) -> None:
        """Replace the bodies of stored revisions, and erase the old ones from the files."""
        self._transact([("INSERT OR REPLACE INTO log VALUES (?, ?, ?, ?, ?, ?)", [row.columns for row in rows])])
        self._drop_old_pages()

    def _drop_old_pages(self) -> None:
        """Empty the write-ahead log: it keeps pages as they were before."""
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except apsw.Error as cause:
            raise _refusal(cause) from cause

    def forget(self, what: Compaction) -> None:
        self._transact(
            [
                (_ERASE, [(orjson.dumps(what.revisions).decode(),)]),
                ("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", list(what.forgotten)),
                (_SET_FACT, [("revision", what.revision)]),
            ]
        )
        if what.last:
            self._give_back_free_pages()
            self._drop_old_pages()

    def _give_back_free_pages(self) -> None:
        """Shrink the file when most of it is free; otherwise the next revisions use the free pages."""
        try:
            free, total = (int(self._db.execute(f"PRAGMA {name}").get) for name in ("freelist_count", "page_count"))
            if free > total // 2:
                self._db.execute(f"PRAGMA incremental_vacuum({VACUUMED_PAGES})").fetchall()
        except apsw.Error as cause:
            raise _refusal(cause) from cause

    def copy(self) -> bytes:
        try:
            return snapshot.copy_database(self._db)
        except apsw.Error as cause:
            raise _refusal(cause) from cause

    def abandon(self) -> None:
        """Close the file without a note that it was closed, and leave its write-ahead log."""
        with contextlib.suppress(apsw.ConnectionClosedError):
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._db.close()

    def close(self) -> None:
        with contextlib.suppress(WriteFailed):  # a full disk: the write-ahead log stays beside the file
            self._transact([(_SET_FACT, [("open", 0)])])
        self._db.close()

    def _transact(self, statements: Sequence[tuple[str, Sequence[tuple[object, ...]]]]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for statement, values in statements:
                self._db.executemany(statement, values)
            self._db.execute("COMMIT")
        except Exception as cause:
            if self._db.in_transaction:
                with contextlib.suppress(apsw.Error):  # what led here is reported
                    self._db.execute("ROLLBACK")
            raise _refusal(cause) from cause


def insert_rows(count: int) -> str:
    """Return one statement for many rows: after each statement this thread waits for the interpreter lock again."""
    rows = ", ".join(["(?, ?, ?, ?, ?, ?)"] * count)
    return f"INSERT INTO log VALUES {rows}"  # noqa: S608 - made of placeholders alone


def _open(path: Path) -> apsw.Connection:
    # Created by us with the right mode: SQLite gives its side files the mode of the main file.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        return apsw.Connection(str(path))
    except (OSError, apsw.Error) as cause:
        raise StoreOpenError(f"cannot open {path}: {cause}: check its owner and mode") from cause


def _prepare(
    db: apsw.Connection, path: Path, synchronous: str, max_bytes: int, store_format: snapshot.StoreFormat
) -> None:
    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        fresh = path.stat().st_size == 0
        if fresh:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with db:  # before there is a write-ahead log: from now on the main file alone says what it is
                db.execute(f"PRAGMA application_id = {snapshot.APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {store_format.version}")
                db.execute(_SCHEMA)
        else:
            snapshot.migrate(db, str(path), store_format)
            verdict = db.execute("PRAGMA quick_check(1)").get
            if verdict != "ok":
                raise _corrupt(path, str(verdict))
        db.execute("PRAGMA secure_delete = ON").fetchall()  # deleted Secrets do not stay in free pages
        db.execute("PRAGMA journal_mode = WAL").fetchall()
        db.execute(f"PRAGMA synchronous = {'FULL' if synchronous == 'FULL' else 'NORMAL'}")
        if max_bytes:
            size = db.execute("PRAGMA page_size").get
            db.execute(f"PRAGMA max_page_count = {max(max_bytes // int(size), 1)}").fetchall()
    except apsw.BusyError as cause:
        raise StoreOpenError(f"{path} is in use by another process") from cause
    except (apsw.NotADBError, apsw.CorruptError) as cause:
        raise _corrupt(path, str(cause)) from cause
    except apsw.Error as cause:
        raise StoreOpenError(f"cannot use {path}: {cause}") from cause


def _corrupt(path: Path, detail: str) -> StoreCorrupt:
    return StoreCorrupt(f"{path} is damaged ({detail}): nothing was changed; move it aside and restore a backup")


def _refusal(cause: Exception) -> WriteFailed:
    if isinstance(cause, apsw.FullError):
        return StorageFull("the disk or the storage quota is full: free space; nothing was written, reading goes on")
    return WriteFailed(f"the write could not be made durable and was undone: {cause}")
