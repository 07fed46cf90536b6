"""Keeps a store equal to the hub's objects of one kind: one stream of events, and a resync when it begins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from watchword.kube.errors import KubeError, Unreachable
from watchword.registration.grpc.client.channel import EventChannel
from watchword.registration.grpc.client.object_events import resync_request
from watchword.registration.grpc.client.object_store import ObjectStore
from watchword.registration.grpc.cloud_events import CloudEvent
from watchword.registration.grpc.errors import GrpcDriverError

QUIET_SECONDS = 1.0
"""A server that does not mark the end of a resync has sent everything when no event came for so long."""

_log = logging.getLogger(__name__)


class ObjectSubscription:
    """Follows one kind while anything uses it; the objects stay for the next use, which asks only for newer ones."""

    def __init__(self, channel: EventChannel, store: ObjectStore, *, lingers: bool = False) -> None:
        self.store = store
        self._channel = channel
        self._lingers = lingers  # stays open without users: it is used again and again
        self._users = 0
        self._stream: EventFeed | None = None

    @property
    def is_open(self) -> bool:
        """Whether events are coming in."""
        return self._stream is not None and not self._stream.is_over

    @asynccontextmanager
    async def use(self) -> AsyncIterator[EventFeed]:
        """Provide the feed of a synced store; raises the server's refusal, or `Unreachable`."""
        self._users += 1
        try:
            feed = self._stream
            if feed is None or not self.is_open:
                feed = self._stream = EventFeed(self._channel, self.store)
            await feed.wait_synced()
            yield feed
        finally:
            self._users -= 1
            if self._users == 0 and not self._lingers:
                await self.stop()

    async def refresh(self) -> None:
        """Wait until the store contains everything that the hub had when this was called."""
        known = self._stream
        async with self.use() as feed:
            if feed is known:
                await feed.resync()

    async def stop(self) -> None:
        """End the stream."""
        feed, self._stream = self._stream, None
        if feed is not None:
            await feed.stop()


class EventFeed:
    """One stream of events into a store, from its subscription to its end."""

    def __init__(self, channel: EventChannel, store: ObjectStore) -> None:
        self._channel = channel
        self._store = store
        self._failure: KubeError | None = None
        self._marks_resync = False
        self._subscribed = asyncio.Event()
        self._received = asyncio.Event()  # another one after each event
        self._requested: set[str] = set()  # the resyncs whose end was not marked yet
        self._reading = asyncio.create_task(self._read(), name=f"gRPC events of {store.codec.resource.plural}")
        self._syncing = asyncio.create_task(self._sync(), name=f"gRPC resync of {store.codec.resource.plural}")

    @property
    def is_over(self) -> bool:
        """Whether no more events come."""
        return self._failure is not None

    def raise_failure(self) -> None:
        """Raise why the stream ended, when it has."""
        if self._failure is not None:
            raise self._failure

    async def wait_synced(self) -> None:
        """Wait for the end of the first resync."""
        await asyncio.wait({self._syncing})
        self.raise_failure()

    async def resync(self) -> None:
        """Ask for everything that is newer than the store, and wait until it is there."""
        codec, channel = self._store.codec, self._channel
        request = resync_request(codec.data_type, self._store.versions).to_event(channel.source, channel.cluster)
        self._requested.add(request.id)
        try:
            await channel.publish(request)
            await self._wait_resynced(request.id)
        finally:
            self._requested.discard(request.id)

    async def _wait_resynced(self, request: str) -> None:
        while request in self._requested:
            self.raise_failure()
            try:
                async with asyncio.timeout(None if self._marks_resync else QUIET_SECONDS):
                    await self._received.wait()
            except TimeoutError:
                return

    async def stop(self) -> None:
        """End the stream; those that wait for it get `Unreachable`."""
        self._fail(Unreachable("the subscription was closed", maybe_processed=False))
        for task in (self._reading, self._syncing):
            task.cancel()
        await asyncio.wait({self._reading, self._syncing})

    async def _sync(self) -> None:
        await self._subscribed.wait()
        if self.is_over:
            return
        try:
            await self.resync()
        except KubeError as trouble:
            self._fail(trouble)
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            async with self._channel.subscribe(self._store.codec.data_type) as stream:
                self._marks_resync = stream.marks_resync
                self._subscribed.set()
                async for event in stream.events:
                    self._take(event)
        except KubeError as trouble:
            self._fail(trouble)

    def _take(self, event: CloudEvent) -> None:
        if event.is_heartbeat:
            self._requested.discard(event.id)
        else:
            self._store_event(event)
        self._received.set()
        self._received = asyncio.Event()

    def _store_event(self, event: CloudEvent) -> None:
        try:
            self._store.receive(self._store.codec.decode(event))
        except GrpcDriverError as trouble:  # one bad event must not keep the others from this cluster
            _log.warning("the gRPC server sent an event that is ignored: %s", trouble)

    def _fail(self, trouble: KubeError) -> None:
        if self._failure is None:
            self._failure = trouble
        self._subscribed.set()
        self._received.set()
        self._store.wake()
