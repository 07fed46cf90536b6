"""Follows the hub's objects, passes changes to the streams of their clusters, and answers resyncs."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey, is_deleting, labels_of, uid_of
from watchword.api.names import CLUSTER_LEASE, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS
from watchword.registration.grpc.cloud_events import RESOURCES, Action, CloudEvent, DataType, EventType, SubResource
from watchword.registration.grpc.errors import MalformedEvent
from watchword.registration.grpc.server import event_streams
from watchword.registration.grpc.server.authorization import Authorizer
from watchword.registration.grpc.server.limits import RequestRefused
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.informer import WatchScope
from watchword.runtime.raw_objects import Delta

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
    streams: event_streams.EventStreams
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
        streams = self.streams.of(_cluster_of_delta(data_type, delta), data_type)
        if not streams:  # most clusters are served by other replicas
            return
        old, new = delta.old, delta.new
        if old is not None and (new is None or uid_of(old) != uid_of(new)):
            _offer(streams, uid_of(old), event_streams.PendingDeletion(Action.DELETE))
            old = None
        if new is None or (
            data_type is DataType.MANIFEST_BUNDLE and old is not None and not event_streams.is_work_changed(old, new)
        ):
            return
        action = Action.CREATE if old is None else Action.UPDATE
        _offer(streams, uid_of(new), event_streams.PendingObject(delta.key, action))

    def render(self, stream: event_streams.EventStream, uid: str, change: event_streams.Pending) -> CloudEvent | None:
        """Return the event for a change; None when the object has changed its identity since."""
        if isinstance(change, event_streams.PendingAnswer):
            return change.event
        kind = EventType(stream.data_type, SubResource.SPEC, change.action)
        now = self.clock.now()
        if isinstance(change, event_streams.PendingDeletion):
            return event_streams.deletion_event(uid, stream.cluster, kind, now=now)
        obj = self.cache.get(RESOURCES[stream.data_type], change.key)
        return None if obj is None or uid_of(obj) != uid else event_streams.object_event(obj, kind, now=now)

    def resync(
        self, request: CloudEvent, data_type: DataType, streams: Sequence[event_streams.EventStream], cluster: str
    ) -> None:
        """Offer what is newer than the agent's versions, the deletion of what the hub has not, and then the end."""
        known = read_resource_versions(request)
        present = {uid_of(obj): obj for obj in self.list(data_type, cluster)}
        for uid, obj in present.items():
            version = str(event_streams.version_of(obj, data_type))
            if known.get(uid) != version or is_deleting(obj):  # older here means that the hub was restored
                _offer(streams, uid, event_streams.PendingObject(ObjectKey.of(obj), Action.RESYNC_RESPONSE))
        for uid in known.keys() - present.keys():
            _offer(streams, uid, event_streams.PendingDeletion(Action.RESYNC_RESPONSE))
        if len(request.id) <= LONGEST_IDENTIFIER:
            _offer(streams, f"resync {request.id}", event_streams.PendingAnswer(event_streams.heartbeat(request.id)))

    def list(self, data_type: DataType, cluster: str) -> Sequence[Object]:
        if data_type is DataType.MANAGED_CLUSTER:
            found = self.cache.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
            return [] if found is None else [found]
        if data_type in (DataType.CERTIFICATE_REQUEST, DataType.LEASE):
            return self.cache.by_index(RESOURCES[data_type], "cluster", cluster)
        if data_type in (DataType.EVENT, DataType.TOKEN_REQUEST):
            return []
        return self.cache.list(RESOURCES[data_type], namespace=cluster)


def _cluster_of_delta(data_type: DataType, delta: Delta) -> str:
    if data_type is DataType.CERTIFICATE_REQUEST:
        return event_streams.cluster_of_object(delta.new or delta.old or {"metadata": {}}, data_type)
    return delta.key.namespace or delta.key.name


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


def _offer(streams: Sequence[event_streams.EventStream], uid: str, change: event_streams.Pending) -> None:
    for stream in streams:
        stream.offer(uid, change)
