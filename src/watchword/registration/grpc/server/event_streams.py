"""The open subscriptions of this process, and the objects of the hub as events for them."""

import asyncio
import uuid
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime

import orjson
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of, uid_of
from watchword.api.names import Label
from watchword.api.sensitive import HiddenFields
from watchword.api.time import parse_rfc3339
from watchword.registration.grpc.cloud_events import (
    BUNDLE_FIELDS,
    HEARTBEAT,
    HUB_SOURCE,
    Action,
    Attribute,
    AttributeValue,
    CloudEvent,
    DataType,
    EventType,
)
from watchword.registration.grpc.server.authorization import Caller
from watchword.registration.grpc.server.limits import RequestRefused


def cluster_of_object(obj: Object, data_type: DataType) -> str:
    if data_type is DataType.MANAGED_CLUSTER:
        return str(obj["metadata"]["name"])
    if data_type is DataType.CERTIFICATE_REQUEST:
        return labels_of(obj).get(Label.CLUSTER_NAME, "")
    return str(obj["metadata"].get("namespace") or "")


def object_event(obj: Object, kind: EventType, *, now: datetime) -> CloudEvent:
    """Return an object as an event; one that is being deleted says so in an attribute, too."""
    extensions = _identity(cluster_of_object(obj, kind.data_type), uid_of(obj))
    extensions[Attribute.RESOURCE_VERSION] = version_of(obj, kind.data_type)
    if is_deleting(obj):
        extensions[Attribute.DELETION_TIMESTAMP] = parse_rfc3339(obj["metadata"]["deletionTimestamp"]) or now
    if kind.data_type is DataType.MANIFEST_BUNDLE:
        extensions[Attribute.METADATA] = orjson.dumps(obj["metadata"]).decode()
        data = manifest_bundle(obj)
    else:
        data = obj
    return _event(kind, extensions, orjson.dumps(data), now)


def deletion_event(uid: str, cluster: str, kind: EventType, *, now: datetime) -> CloudEvent:
    """Return the event for an object that does not exist any more."""
    extensions = _identity(cluster, uid)
    extensions[Attribute.DELETION_TIMESTAMP] = now
    if kind.data_type is DataType.MANIFEST_BUNDLE:
        extensions[Attribute.RESOURCE_VERSION] = 0  # agents expect an integer
    return _event(kind, extensions, b"", now)


def token_event(answer: Object, request_id: str, cluster: str, kind: EventType, *, now: datetime) -> CloudEvent:
    return _event(kind, _identity(cluster, request_id), orjson.dumps(answer), now)


def heartbeat(id_: str = "") -> CloudEvent:
    """Return the event that shows that the stream is alive; with the identifier of a resync, that it has ended."""
    return CloudEvent(id=id_ or str(uuid.uuid4()), source="", type=HEARTBEAT)


def version_of(obj: Object, data_type: DataType) -> str | int:
    """Return what agents compare: the generation of a work, the resourceVersion of any other object."""
    metadata = obj["metadata"]
    if data_type is DataType.MANIFEST_BUNDLE:
        return int(metadata.get("generation") or 0)
    return str(metadata.get("resourceVersion") or "")


def manifest_bundle(work: Object) -> Object:
    """Return the part of a ManifestWork that travels as data; its metadata travels as an attribute."""
    spec: Object = work.get("spec") or {}
    bundle: Object = {"manifests": (spec.get("workload") or {}).get("manifests") or []}
    bundle |= {field: spec[name] for field, name in BUNDLE_FIELDS.items() if spec.get(name)}
    # Agents of Open Cluster Management leave it unread; ours continues with it after a restart.
    return {**bundle, "status": work["status"]} if work.get("status") else bundle


def is_work_changed(old: Object, new: Object) -> bool:
    """Whether an agent has to see a change of a work: its own reports are no news to it."""
    before, after = old["metadata"], new["metadata"]
    noted = any(before.get(name) != after.get(name) for name in ("labels", "annotations", "generation"))
    return noted or is_deleting(new)


def _identity(cluster: str, uid: str) -> dict[str, AttributeValue]:
    return {Attribute.CLUSTER_NAME: cluster, Attribute.ORIGINAL_SOURCE: "", Attribute.RESOURCE_ID: uid}


def _event(kind: EventType, extensions: dict[str, AttributeValue], data: bytes, now: datetime) -> CloudEvent:
    return CloudEvent(
        id=str(uuid.uuid4()), source=HUB_SOURCE, type=str(kind), extensions=extensions, data=data, time=now
    )


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
        return tuple(self._by_cluster.get(cluster, {}).get(data_type, ()))

    def end_cluster(self, cluster: str, reason: RequestRefused) -> None:
        for streams in self._by_cluster.get(cluster, {}).values():
            for stream in tuple(streams):
                stream.end(reason)

    def end_all(self, reason: RequestRefused) -> None:
        """End every stream, and accept no more."""
        self._closed = reason
        for cluster in tuple(self._by_cluster):
            self.end_cluster(cluster, reason)
