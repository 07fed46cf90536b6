"""Deletes Events some time after their last write, as kube-apiserver does by --event-ttl."""

import asyncio
from datetime import datetime, timedelta
from heapq import heappop, heappush

from msgspec import field

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CORE_EVENTS
from watchword.api.time import parse_rfc3339
from watchword.apiserver.controllers.worker import Controller, Watches, delete_if_unchanged
from watchword.apiserver.serving.model import Now

EVENT_TTL = timedelta(hours=1)
_BATCH = 100  # deletions that commit together


class EventExpiryController(Controller[str]):
    """Triggered by time; both groups of Events are stored as one kind."""

    now: Now
    lifetime: timedelta
    _ends: dict[ObjectKey, datetime] = field(default_factory=dict)
    # A heap; entries of earlier writes are passed over.
    _queue: list[tuple[datetime, ObjectKey]] = field(default_factory=list)

    def watches(self) -> Watches:
        return {CORE_EVENTS: self._changed}

    def _changed(self, change: str, event: Object) -> None:
        key = ObjectKey.of(event)
        if change == "DELETED":
            self._ends.pop(key, None)
            return
        written = self.now() if change == "MODIFIED" else last_write(event, self.now())
        end = self._ends[key] = written + self.lifetime
        is_next = not self._queue or end < self._queue[0][0]
        heappush(self._queue, (end, key))
        if is_next:
            self.worker.enqueue("")

    async def sync(self, _: str) -> float | None:
        now, expired = self.now(), []
        while self._queue and (self._queue[0][0] <= now or self._is_outdated(*self._queue[0])):
            row = heappop(self._queue)
            if not self._is_outdated(*row):
                expired.append(row)
        try:
            for start in range(0, len(expired), _BATCH):
                await asyncio.gather(*(self._delete(key) for _, key in expired[start : start + _BATCH]))
        except Exception:
            for row in expired:  # tried again: the disk may be full
                heappush(self._queue, row)
            raise
        return max(0.0, (self._queue[0][0] - now).total_seconds()) if self._queue else None

    def _is_outdated(self, end: datetime, key: ObjectKey) -> bool:
        return self._ends.get(key) != end

    async def _delete(self, key: ObjectKey) -> None:
        event = self.registry.get(CORE_EVENTS, key)
        if event is not None:  # one that is written again just now expires later
            version = event["metadata"]["resourceVersion"]
            await delete_if_unchanged(self.registry, CORE_EVENTS, event, resource_version=version)


def last_write(event: Object, now: datetime) -> datetime:
    metadata = event["metadata"]
    texts = [metadata.get("creationTimestamp"), *(row.get("time") for row in metadata.get("managedFields") or ())]
    return max((found for text in texts if text and (found := parse_rfc3339(text)) and found <= now), default=now)
