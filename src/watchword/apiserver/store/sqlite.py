"""The store of a real control plane: durable before visible, revisions exact across restarts."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from watchword.apiserver.store import snapshot
from watchword.apiserver.store.encryption import RowCipher
from watchword.apiserver.store.log import Compaction, FileLock, RevisionLog
from watchword.apiserver.store.memory import CommittedReads, CommittedState, decide_event
from watchword.apiserver.store.model import Record, StoreChange, StoreEvent, StoreMissing, WriteFailed
from watchword.apiserver.store.writer import Append, Call, CallResult, LogWriter, Outcome
from watchword.pki.encryption import EncryptionKeys

T = TypeVar("T")

ERASED_TOGETHER = 1_000
RENEWAL_BUCKET = "leases.coordination.k8s.io"
RENEWAL_PAUSE = 0.2
"""Seconds between two transactions that hold nothing but renewals of leases: those of a large fleet share them."""


class SqliteStore(CommittedReads):
    """Reads come from memory; a write is acknowledged, and visible, once it is on disk.

    Writers build on writes that are not committed yet (`latest`): those commit in the same order or not at all.
    """

    def __init__(
        self,
        path: Path,
        *,
        synchronous: str = "FULL",
        max_bytes: int = 0,
        encryption: EncryptionKeys | None = None,
        renewal_pause: float = RENEWAL_PAUSE,
    ) -> None:
        self._cipher = RowCipher(encryption)
        self._path, self._mark_path = path, path.with_name(f"{path.name}.mark")
        self._open_files = ExitStack()
        self._open_files.callback(FileLock(path.with_name(f"{path.name}.lock")).release)
        try:
            require_present(path, self._mark_path)
            self._log = RevisionLog(path, synchronous=synchronous, max_bytes=max_bytes)
            self._open_files.callback(self._log.abandon)  # without effect once the writer has closed it
            self._state, self._garbage = load(self._log, self._cipher)
            self._begin()
            self._log.mark_open()
            outdated = self._cipher.outdated(self._log.rows())
            if outdated:
                self._log.replace(outdated)
        except BaseException:
            self._open_files.close()
            raise
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer = LogWriter(self._log, self._hand_over, renewal_pause)
        self._writer.start()
        self._next = self._state.revision + 1
        self._epoch = 0
        self._under_way: dict[int, tuple[StoreEvent, asyncio.Future[Record]]] = {}
        self._newest: dict[tuple[str, str], StoreEvent] = {}
        self._unsent: list[Append] = []
        self._closed = False

    def _begin(self) -> None:
        """Start a new epoch when the file lacks revisions that it had, so that no watcher misses what is lost."""
        now, last = snapshot.RestoreMarker.of(self._path, self._state.revision), snapshot.read_marker(self._mark_path)
        self.new_epoch = snapshot.decide_epoch(now, last, was_open=self._log.was_open, wal=self._log.wal_size)
        if self.new_epoch is not None:
            revision = max(now.revision, last.revision if last is not None else 0) + snapshot.EPOCH_GAP
            self._log.raise_floor(revision)
            self._state.revision = self._state.floor = revision
        descriptor = self._open_files.enter_context(snapshot.open_marker(self._mark_path))
        snapshot.put_marker(descriptor, replace(now, revision=self._state.revision))

        def mark(revision: int) -> None:
            with suppress(OSError):  # an earlier marker only notices fewer losses
                snapshot.put_marker(descriptor, replace(now, revision=revision))

        self._log.committed = mark

    def latest(self, bucket: str, path: str) -> Record | None:
        event = self._newest.get((bucket, path))
        if event is None:
            return self._state.get(bucket, path)
        return None if event.deleted else event.record

    async def write(self, change: StoreChange) -> Record:
        """Commit one change; the write completes even when the caller stops waiting."""
        if self._closed:
            raise WriteFailed("the store is closed: the server is stopping")
        event = decide_event(change, self.latest(change.bucket, change.path), self._next)
        self._next += 1
        self._loop = asyncio.get_running_loop()
        done: asyncio.Future[Record] = self._loop.create_future()
        self._under_way[event.revision] = (event, done)
        self._newest[change.bucket, change.path] = event
        record = event.record
        row = snapshot.Row(record.revision, record.bucket, record.path, event.deleted, record.body)
        self._unsent.append(Append(self._cipher.encrypt(row), self._epoch, can_wait=is_renewal(change)))
        if len(self._unsent) == 1:
            self._loop.call_soon(self._submit)
        return await done

    def _submit(self) -> None:
        # Pass on, once for each turn of the loop, all rows written in it: waking the writer's thread for each row would
        # make both threads wait for the interpreter.
        unsent, self._unsent = self._unsent, []
        for item in unsent:
            self._writer.submit(item)

    async def flush(self) -> None:
        if self._under_way:
            await self._call(lambda _: None)

    async def compact(self, revision: int) -> None:
        """Forget superseded states up to and including a revision; `WriteFailed` leaves the rest to the next call."""
        await self.flush()
        self._garbage.extend(self._state.compact(revision))
        if self._closed:
            return
        await self._erase_garbage()

    async def _erase_garbage(self) -> None:
        """Erase a slice at a time: writes that wait commit between two of them."""
        left, self._garbage = self._garbage, []
        forgotten = [(name, bucket.forgotten) for name, bucket in self._state.buckets.items() if bucket.forgotten]
        try:
            while left:
                erased = left[:ERASED_TOGETHER]
                last = len(left) <= ERASED_TOGETHER
                what = Compaction(erased, forgotten, self._state.revision, last=last)
                await self._call(lambda log, what=what: log.forget(what))  # type: ignore[misc]
                left = left[ERASED_TOGETHER:]
        finally:
            self._garbage.extend(left)

    async def copy(self) -> bytes:
        """Return a data file of one revision, while others write; `WriteFailed` when it cannot be made."""
        if self._closed:
            raise WriteFailed("the store is closed: the server is stopping")
        return await self._call(lambda log: log.copy())

    async def _call(self, run: Callable[[RevisionLog], T]) -> T:
        """Run a function in the writer's thread after every write that was begun before."""
        self._loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = self._loop.create_future()
        done.add_done_callback(_retrieve_exception)
        self._submit()
        self._writer.submit(Call(run, done))
        return await asyncio.shield(done)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self.flush()
        await asyncio.get_running_loop().run_in_executor(None, self._writer.finish)
        self._open_files.close()

    def _hand_over(self, outcome: Outcome) -> None:
        """Bring an outcome from the writer's thread to the event loop."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._conclude, outcome)
        except RuntimeError:
            return  # the loop is closed, and no caller waits any more

    def _conclude(self, outcome: Outcome) -> None:
        if isinstance(outcome, CallResult):
            if outcome.error is not None:
                outcome.done.set_exception(outcome.error)
            else:
                outcome.done.set_result(outcome.result)
            return
        if outcome.epoch != self._epoch:
            return  # undone with its epoch already
        if outcome.error is not None:
            self._undo_epoch(outcome.error)
            return
        for revision in outcome.revisions:
            event, done = self._under_way.pop(revision)
            place = (event.record.bucket, event.record.path)
            if self._newest.get(place) is event:
                del self._newest[place]
            self._garbage.extend(self._state.commit(event))
            if not done.done():
                done.set_result(event.record)

    def _undo_epoch(self, error: WriteFailed) -> None:
        waiting = [done for _, done in self._under_way.values()]
        self._under_way.clear()
        self._newest.clear()
        self._next = self._state.revision + 1
        self._epoch += 1
        for done in waiting:
            if not done.done():
                done.set_exception(error)


def is_renewal(change: StoreChange) -> bool:
    """Whether a change can wait for others: a lease that exists is written again, and lives longer than any pause."""
    return change.bucket == RENEWAL_BUCKET and change.expected != 0 and not change.deleted


def require_present(path: Path, evidence: Path) -> None:
    """Refuse to begin with nothing where `evidence` shows that there was a data file."""
    if evidence.exists() and (not path.exists() or path.stat().st_size == 0):
        raise StoreMissing(
            f"{path} is gone or empty, but {evidence} shows that it was in use: put {path.name} back from a backup, "
            f"or remove everything in {path.parent} to begin anew"
        )


def load(log: RevisionLog, cipher: RowCipher) -> tuple[CommittedState, list[int]]:
    """Rebuild current state and recent past from the log; also return revisions that may be erased from it."""
    state, garbage = CommittedState(), list[int]()
    for name, revision in log.forgotten():
        state.buckets[name].forgotten = revision
    for row in map(cipher.decrypt, log.rows()):
        record = Record(row.bucket, row.path, row.revision, row.body)
        bucket = state.buckets[row.bucket]
        event = StoreEvent(record, bucket.records.get(row.path), deleted=row.deleted)
        if row.revision <= bucket.forgotten:
            bucket.restore(event)
        else:
            garbage.extend(state.commit(event))
    state.revision = max(state.revision, log.revision())
    state.floor = log.floor()
    return state, garbage


def _retrieve_exception(done: asyncio.Future[Any]) -> None:
    """Mark an error as seen: the caller may have stopped waiting."""
    if not done.cancelled():
        done.exception()
