"""The one thread that writes: it gathers waiting writes and commits them together."""

import asyncio
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from msgspec import Struct

from watchword.api.sensitive import HiddenFields
from watchword.apiserver.store.log import RevisionLog
from watchword.apiserver.store.model import WriteFailed
from watchword.apiserver.store.snapshot import Row

LARGEST_BATCH = 500


class Append(Struct, frozen=True):
    """One row that commits only with all earlier ones of the same epoch."""

    row: Row
    epoch: int
    can_wait: bool = False  # for other rows, so that one transaction writes them all


class Call(Struct, frozen=True):
    """Call a function of the log after everything that was queued before; the result is reported."""

    run: Callable[[RevisionLog], object]
    done: asyncio.Future[Any]


class CloseLog(Struct, frozen=True):
    """Close the log and end the thread."""


class BatchResult(Struct, frozen=True):
    """Result of a batch: `error` is None when it is durable."""

    epoch: int
    revisions: tuple[int, ...]
    error: WriteFailed | None = None


class CallResult(HiddenFields, frozen=True):
    """What a function returned, or why it failed."""

    hidden = ("result",)

    done: asyncio.Future[Any]
    result: object = None
    error: WriteFailed | None = None


Outcome = BatchResult | CallResult
Item = Append | Call | CloseLog


class LogWriter:
    """Owns the log from `start` on.

    After a failed commit everything of that epoch is refused: later writes were built on what is now undone. Rows that
    can wait do so until `pause` seconds after the last commit, or until another item is queued.
    """

    def __init__(self, log: RevisionLog, report: Callable[[Outcome], None], pause: float) -> None:
        self._log = log
        self._report = report  # called on the writer's thread; must hand over to the event loop
        self._pause = pause
        self._waits_until = 0.0
        self._inbox: SimpleQueue[Item] = SimpleQueue()
        self._held: Item | None = None
        self._refused: tuple[int, WriteFailed] | None = None
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, item: Append | Call) -> None:
        """Put one item into the queue; outcomes are reported in the same order."""
        self._inbox.put(item)

    def finish(self) -> None:
        """Write what is queued, close the log, end the thread; blocks until that is done."""
        self._inbox.put(CloseLog())
        self._thread.join()

    def _run(self) -> None:
        while True:
            item = self._held or self._inbox.get()
            self._held = None
            if isinstance(item, CloseLog):
                break
            if isinstance(item, Call):
                self._call(item)
            else:
                self._commit(self._gather(item))
        self._log.close()

    def _call(self, item: Call) -> None:
        results: list[object] = []
        error = _attempt(lambda: results.append(item.run(self._log)))
        self._report(CallResult(item.done, results[0] if results else None, error))

    def _gather(self, first: Append) -> list[Append]:
        """Return the rows that belong together: those that wait at this moment, and those they can wait for."""
        batch, can_wait = [first], first.can_wait
        while len(batch) < LARGEST_BATCH:
            item = self._next(can_wait=can_wait)
            if not isinstance(item, Append) or item.epoch != first.epoch:
                self._held = item
                break
            batch.append(item)
            can_wait = can_wait and item.can_wait
        return batch

    def _next(self, *, can_wait: bool) -> Item | None:
        wait = self._waits_until - time.monotonic() if can_wait else 0.0
        try:
            return self._inbox.get(block=wait > 0, timeout=wait if wait > 0 else None)
        except Empty:
            return None

    def _commit(self, batch: list[Append]) -> None:
        epoch, revisions = batch[0].epoch, tuple(item.row.revision for item in batch)
        error = self._refused[1] if self._refused is not None and epoch <= self._refused[0] else None
        if error is None:
            error = _attempt(lambda: self._log.append(item.row for item in batch))
            self._refused = (epoch, error) if error is not None else self._refused
        self._waits_until = time.monotonic() + self._pause
        self._report(BatchResult(epoch, revisions, error))


def _attempt(write: Callable[[], None]) -> WriteFailed | None:
    """Return why a write failed, whatever happened: the thread must go on, or every later write would wait for ever."""
    try:
        write()
    except WriteFailed as refusal:
        return refusal
    except Exception as error:  # noqa: BLE001 - see above
        return WriteFailed(f"the write could not be made durable and was undone: {error}")
    return None
