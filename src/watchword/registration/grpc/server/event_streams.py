"""The open subscriptions of this process: what each one has to send, and which ones have to end."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from watchword.api.meta import ObjectKey
from watchword.api.sensitive import HiddenFields
from watchword.registration.grpc.cloud_events import CloudEvent
from watchword.registration.grpc.event_types import Action, DataType
from watchword.registration.grpc.server.authentication import Caller
from watchword.registration.grpc.server.refusals import RequestRefused

MOST_PENDING = 10_000


class PendingObject(Struct, frozen=True):
    """An object to send, as it will be by then."""

    key: ObjectKey
    action: Action


class PendingDeletion(Struct, frozen=True):
    """An object that is gone."""

    action: Action


class PendingAnswer(HiddenFields, frozen=True):
    """An event that is sent as it is."""

    hidden = ("event",)

    event: CloudEvent


Pending = PendingObject | PendingDeletion | PendingAnswer


class EventStream:
    """One subscription. Of each object only the latest change waits, so that a slow reader costs little memory."""

    def __init__(self, cluster: str, data_type: DataType, caller: Caller, connection: Hashable) -> None:
        self.cluster = cluster
        self.data_type = data_type
        self.caller = caller
        self.connection = connection
        self._pending: dict[str, Pending] = {}  # by UID, the oldest first
        self._ended: RequestRefused | None = None
        self._wake = asyncio.Event()

    def offer(self, uid: str, change: Pending) -> None:
        """Let a change wait to be sent, in place of an earlier one of the same object: what came later stays later."""
        earlier = self._pending.get(uid)
        if isinstance(change, PendingObject) and isinstance(earlier, PendingObject) and earlier.action is Action.CREATE:
            change = PendingObject(change.key, Action.CREATE)
        if earlier is None and len(self._pending) >= MOST_PENDING:
            self.end(RequestRefused(429, "too many events wait to be read: subscribe again and ask for a resync"))
            return
        self._pending[uid] = change
        self._wake.set()

    def end(self, reason: RequestRefused) -> None:
        """End the stream; the reason is what its reader receives."""
        self._ended = self._ended or reason
        self._wake.set()

    async def wait(self, seconds: float) -> None:
        """Wait until there is something to send, for so many seconds at most; raises the reason of an end."""
        if not self._pending and self._ended is None:
            self._wake.clear()
            try:
                async with asyncio.timeout(max(0.0, seconds)):
                    await self._wake.wait()
            except TimeoutError:
                pass
        if self._ended is not None:
            raise self._ended

    def take(self) -> tuple[str, Pending] | None:
        """Return the oldest change that waits; None when there is none."""
        if self._ended is not None:
            raise self._ended
        uid = next(iter(self._pending), None)
        return None if uid is None else (uid, self._pending.pop(uid))


class EventStreams:
    """Finds subscriptions by cluster and data type."""

    def __init__(self) -> None:
        self._by_cluster: dict[str, dict[DataType, dict[EventStream, None]]] = {}
        self._closed: RequestRefused | None = None

    def __len__(self) -> int:
        return sum(len(found) for kinds in self._by_cluster.values() for found in kinds.values())

    @contextmanager
    def registered(self, stream: EventStream) -> Iterator[None]:
        """Deliver changes to a stream inside the context."""
        if self._closed is not None:
            raise self._closed
        kinds = self._by_cluster.setdefault(stream.cluster, {})
        kinds.setdefault(stream.data_type, {})[stream] = None
        try:
            yield
        finally:
            kinds[stream.data_type].pop(stream, None)
            if not any(kinds.values()):
                self._by_cluster.pop(stream.cluster, None)

    def of(self, cluster: str, data_type: DataType) -> tuple[EventStream, ...]:
        """Return the streams of one cluster and data type."""
        return tuple(self._by_cluster.get(cluster, {}).get(data_type, ()))

    def end_cluster(self, cluster: str, reason: RequestRefused) -> None:
        """End every stream of a cluster."""
        for streams in self._by_cluster.get(cluster, {}).values():
            for stream in tuple(streams):
                stream.end(reason)

    def end_all(self, reason: RequestRefused) -> None:
        """End every stream, and accept no more."""
        self._closed = reason
        for cluster in tuple(self._by_cluster):
            self.end_cluster(cluster, reason)
