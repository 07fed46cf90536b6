"""Follows the hub's objects, passes changes to the streams of their clusters, and answers resyncs."""

import asyncio
import uuid
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

import orjson
from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of, uid_of
from watchword.api.names import CLUSTER_LEASE, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS
from watchword.api.sensitive import HiddenFields
from watchword.api.time import parse_rfc3339
from watchword.registration.grpc.cloud_events import (
    BUNDLE_FIELDS,
    HEARTBEAT,
    HUB_SOURCE,
    RESOURCES,
    Action,
    Attribute,
    AttributeValue,
    CloudEvent,
    DataType,
    EventType,
    SubResource,
)
from watchword.registration.grpc.errors import MalformedEvent, RequestRefused
from watchword.registration.grpc.server.authorization import Authorizer, Caller
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.raw_objects import Delta


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


class PendingChange(HiddenFields, frozen=True):
    """What waits to be sent: an event, or an object as it will be by then."""

    hidden = ("event",)

    action: Action | None = None
    key: ObjectKey | None = None  # None: the object is gone
    event: CloudEvent | None = None  # sent as it is


class EventStream:
    """One subscription. Of each object only the latest change waits, so that a slow reader costs little memory."""

    def __init__(self, cluster: str, data_type: DataType, caller: Caller, connection: Hashable) -> None:
        self.cluster = cluster
        self.data_type = data_type
        self.caller = caller
        self.connection = connection
        self._pending: dict[str, PendingChange] = {}  # by UID, the oldest first
        self._ended: RequestRefused | None = None
        self._wake = asyncio.Event()

    def offer(self, uid: str, change: PendingChange) -> None:
        """Let a change wait to be sent, in place of an earlier one of the same object: what came later stays later."""
        earlier = self._pending.get(uid)
        if change.key is not None and earlier is not None and earlier.action is Action.CREATE:
            change = PendingChange(Action.CREATE, change.key)
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
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, seconds)):
                    await self._wake.wait()
        if self._ended is not None:
            raise self._ended

    def take(self) -> tuple[str, PendingChange] | None:
        """Return the oldest change that waits; None when there is none."""
        if self._ended is not None:
            raise self._ended
        uid = next(iter(self._pending), None)
        return None if uid is None else (uid, self._pending.pop(uid))


class EventStreams:
    """Finds subscriptions by cluster and data type."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, DataType], dict[EventStream, None]] = {}
        self._closed: RequestRefused | None = None

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    @contextmanager
    def registered(self, stream: EventStream) -> Iterator[None]:
        if self._closed is not None:
            raise self._closed
        key = stream.cluster, stream.data_type
        alike = self._streams.setdefault(key, {})
        alike[stream] = None
        try:
            yield
        finally:
            del alike[stream]
            if not alike:
                del self._streams[key]

    def of(self, cluster: str, data_type: DataType) -> tuple[EventStream, ...]:
        return tuple(self._streams.get((cluster, data_type), ()))

    def end_cluster(self, cluster: str, reason: RequestRefused) -> None:
        for data_type in DataType:
            for stream in self.of(cluster, data_type):
                stream.end(reason)

    def end_all(self, reason: RequestRefused) -> None:
        """End every stream, and accept no more."""
        self._closed = reason
        for streams in self._streams.values():
            for stream in streams:
                stream.end(reason)


FOLLOWED = (
    (DataType.MANAGED_CLUSTER, WatchScope()),
    (DataType.CERTIFICATE_REQUEST, WatchScope(labels=Label.CLUSTER_NAME)),
    (DataType.LEASE, WatchScope(fields=f"metadata.name={CLUSTER_LEASE}")),
    (DataType.ADDON, WatchScope()),
    (DataType.MANIFEST_BUNDLE, WatchScope()),
)
"""What is followed from the start; Event and TokenRequest are written only."""

MOST_RESYNC_ROWS = 100_000
SYNC_SECONDS = 10.0
LONGEST_IDENTIFIER = 128


class HubObjects(Struct, frozen=True):
    """The cached objects of the hub, by cluster."""

    cache: Cache
    streams: EventStreams
    authorizer: Authorizer
    clock: Clock

    def follow(self) -> None:
        for data_type, scope in FOLLOWED:
            self.cache.informer(RESOURCES[data_type], scope)
            self._handle(data_type)
        self.cache.add_handler(MANAGED_CLUSTERS, self._acceptance_changed)
        self.cache.index(CERTIFICATE_SIGNING_REQUESTS, "cluster", lambda o: [labels_of(o).get(Label.CLUSTER_NAME, "")])
        self.cache.index(MANIFEST_WORKS, "uid", lambda o: [uid_of(o)])
        self.cache.index(LEASES, "cluster", lambda o: [o["metadata"].get("namespace", "")])

    async def ensure_followed(self, data_type: DataType) -> None:
        """Follow a data type that is rarely used, from its first request on; `RequestRefused` when the hub has none."""
        resource = RESOURCES.get(data_type)
        if resource is None or data_type is DataType.EVENT:
            return
        known = self.cache.informers(resource)
        informer = known[0] if known else self.cache.informer(resource)
        if not known:
            self._handle(data_type)
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await informer.sync()
        except TimeoutError as cause:
            self.cache.drop(informer)
            raise RequestRefused(503, f"the hub's API server does not serve {data_type} now: try again") from cause

    def _handle(self, data_type: DataType) -> None:
        self.cache.add_handler(RESOURCES[data_type], lambda delta: self._changed(data_type, delta))

    def _acceptance_changed(self, delta: Delta) -> None:
        """End the streams of a cluster that was denied or removed; forget what it was allowed to do."""
        before, after = delta.old, delta.new
        was_accepted = before is not None and Cluster.read(before).accepted
        accepted = after is not None and Cluster.read(after).accepted
        if was_accepted == accepted:
            return
        self.authorizer.forget(delta.key.name)
        if not accepted:
            reason = RequestRefused(403, f"cluster {delta.key.name} is not accepted by this hub any more")
            self.streams.end_cluster(delta.key.name, reason)

    def _changed(self, data_type: DataType, delta: Delta) -> None:
        cluster = delta.key.namespace or delta.key.name
        if data_type is DataType.CERTIFICATE_REQUEST:
            cluster = cluster_of_object(delta.new or delta.old or {"metadata": {}}, data_type)
        streams = self.streams.of(cluster, data_type)
        if not streams:  # most clusters are served by other replicas
            return
        old, new = delta.old, delta.new
        if old is not None and (new is None or uid_of(old) != uid_of(new)):
            _offer(streams, uid_of(old), PendingChange(Action.DELETE))
            old = None
        if new is None or (data_type is DataType.MANIFEST_BUNDLE and old is not None and not is_work_changed(old, new)):
            return
        action = Action.CREATE if old is None else Action.UPDATE
        _offer(streams, uid_of(new), PendingChange(action, delta.key))

    def render(self, stream: EventStream, uid: str, change: PendingChange) -> CloudEvent | None:
        """Return the event for a change; None when the object has changed its identity since."""
        if change.action is None:
            return change.event
        kind = EventType(stream.data_type, SubResource.SPEC, change.action)
        now = self.clock.now()
        if change.key is None:
            return deletion_event(uid, stream.cluster, kind, now=now)
        obj = self.cache.get(RESOURCES[stream.data_type], change.key)
        return None if obj is None or uid_of(obj) != uid else object_event(obj, kind, now=now)

    def resync(self, request: CloudEvent, data_type: DataType, streams: Sequence[EventStream], cluster: str) -> None:
        """Offer what is newer than the agent's versions, the deletion of what the hub has not, and then the end."""
        known = read_resource_versions(request)
        present = {uid_of(obj): obj for obj in self.list(data_type, cluster)}
        for uid, obj in present.items():
            version = str(version_of(obj, data_type))
            if known.get(uid) != version or is_deleting(obj):  # older here means that the hub was restored
                _offer(streams, uid, PendingChange(Action.RESYNC_RESPONSE, ObjectKey.of(obj)))
        for uid in known.keys() - present.keys():
            _offer(streams, uid, PendingChange(Action.RESYNC_RESPONSE))
        if len(request.id) <= LONGEST_IDENTIFIER:
            _offer(streams, f"resync {request.id}", PendingChange(event=heartbeat(request.id)))

    def list(self, data_type: DataType, cluster: str) -> Sequence[Object]:
        if data_type is DataType.MANAGED_CLUSTER:
            found = self.cache.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
            return [] if found is None else [found]
        if data_type in (DataType.CERTIFICATE_REQUEST, DataType.LEASE):
            return self.cache.by_index(RESOURCES[data_type], "cluster", cluster)
        if data_type in (DataType.EVENT, DataType.TOKEN_REQUEST):
            return []
        return self.cache.list(RESOURCES[data_type], namespace=cluster)


def read_resource_versions(request: CloudEvent) -> dict[str, str]:
    """Return the versions that an agent has, by UID; `MalformedEvent` when the list is not one."""
    rows = request.json().get("resourceVersions") or []
    if not isinstance(rows, list) or len(rows) > MOST_RESYNC_ROWS:
        raise MalformedEvent("resourceVersions of the resync request is not a list, or too long")
    known: dict[str, str] = {}
    for row in rows:
        uid = row.get("resourceID") if isinstance(row, dict) else None
        version = row.get("resourceVersion") if isinstance(row, dict) else None
        if not isinstance(uid, str) or not isinstance(version, int | str) or isinstance(version, bool):
            raise MalformedEvent("a row of resourceVersions has no resourceID, or no resourceVersion")
        known[uid] = str(version)
    return known


def _offer(streams: Sequence[EventStream], uid: str, change: PendingChange) -> None:
    for stream in streams:
        stream.offer(uid, change)
