"""Writes what agents publish: each data type accepts few actions, and every write is rebuilt from the payload."""

from collections.abc import Awaitable, Callable, Hashable

from msgspec import Struct

from watchword.api import resources
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, is_deleting, uid_of
from watchword.api.names import Finalizer
from watchword.kube.access_reviews import ResourceAccess
from watchword.kube.client import Client
from watchword.kube.request_sender import decode
from watchword.registration.grpc import cloud_events
from watchword.registration.grpc.errors import UnknownEventType
from watchword.registration.grpc.server import payloads
from watchword.registration.grpc.server.authorization import Authorizer, Caller, choose_access
from watchword.registration.grpc.server.event_streams import EventStream, PendingAnswer, token_event
from watchword.registration.grpc.server.hub_objects import HubObjects
from watchword.registration.grpc.server.limits import RequestRefused
from watchword.runtime.ensure import add_finalizer, remove_finalizer

DELETED = "Deleted"
"""The condition of a work that its agent has removed from the cluster."""


class Published(Struct, frozen=True):
    """One event that was authenticated and authorized for its cluster."""

    event: cloud_events.CloudEvent
    kind: cloud_events.EventType
    cluster: str
    caller: Caller
    connection: Hashable


Write = Callable[["Publisher", Published, Object], Awaitable[None]]


class Publisher(Struct, frozen=True):
    """Handles published events."""

    client: Client
    objects: HubObjects
    authorizer: Authorizer

    async def publish(
        self, event: cloud_events.CloudEvent, caller: Caller, connection: Hashable
    ) -> cloud_events.EventType:
        """Do what an event asks for, if its sender may; raises what `grpc_error` understands."""
        kind = cloud_events.EventType.parse(event.type)
        cluster = payloads.cluster_of(event)
        published = Published(event, kind, cluster, caller, connection)
        if kind.action is cloud_events.Action.RESYNC_REQUEST and kind.subresource is cloud_events.SubResource.SPEC:
            await self.authorizer.authorize(caller, cluster, choose_access(kind, cluster))
            await self.objects.ensure_followed(kind.data_type)
            self._resync(published)
        elif kind.data_type is cloud_events.DataType.MANIFEST_BUNDLE:
            await self._report_work(published)
        else:
            write = _WRITES.get((kind.data_type, kind.subresource, kind.action))
            if write is None:
                raise UnknownEventType(f"an agent does not send {kind}: send an event that the protocol defines")
            sent = payloads.read_payload(event, kind, cluster)
            access = choose_access(kind, cluster, _named(kind, sent))
            await self.authorizer.authorize(caller, cluster, access)
            await write(self, published, sent)
        return kind

    def _resync(self, published: Published) -> None:
        self.objects.resync(published.event, published.kind.data_type, self._own_streams(published), published.cluster)

    def _own_streams(self, published: Published) -> list[EventStream]:
        """Return the streams of the very connection: nothing is sent to others that subscribe for the same cluster."""
        streams = self.objects.streams.of(published.cluster, published.kind.data_type)
        return [stream for stream in streams if stream.connection == published.connection]

    async def create_cluster(self, _published: Published, sent: Object) -> None:
        await self.client.create(resources.MANAGED_CLUSTERS, payloads.new_cluster(sent))

    async def update_cluster(self, published: Published, sent: Object) -> None:
        key = ObjectKey.cluster(published.cluster)
        present = self.objects.cache.get(resources.MANAGED_CLUSTERS, key)
        if present is None or payloads.is_of_another_version(sent, present):
            # The agent may have read from another replica.
            present = await self.client.get(resources.MANAGED_CLUSTERS, key)
        await self.client.update(resources.MANAGED_CLUSTERS, payloads.changed_cluster(sent, present))

    async def update_status(self, published: Published, sent: Object) -> None:
        resource = cloud_events.RESOURCES[published.kind.data_type]
        await self.client.update(resource, payloads.reported_status(sent, published.kind), subresource="status")

    async def request_certificate(self, published: Published, sent: Object) -> None:
        request = payloads.new_certificate_request(sent, published.cluster, published.caller.user)
        await self.client.create(resources.CERTIFICATE_SIGNING_REQUESTS, request)

    async def renew_lease(self, published: Published, sent: Object) -> None:
        key = ObjectKey.of(sent)
        present = self.objects.cache.get(resources.LEASES, key) or await self.client.get(resources.LEASES, key)
        await self.client.update(resources.LEASES, payloads.renewed_lease(sent, present, published.cluster))

    async def create_event(self, _published: Published, sent: Object) -> None:
        await self.client.create(resources.EVENTS, payloads.recorded_event(sent))

    async def update_event(self, _published: Published, sent: Object) -> None:
        """Record the repetition of an Event: agents send its series, and nothing else of it."""
        await self.client.patch(resources.EVENTS, ObjectKey.of(sent), payloads.event_series(sent))

    async def request_token(self, published: Published, sent: Object) -> None:
        """Request a token, and send it to the subscription of the same connection alone."""
        streams = [stream for stream in self._own_streams(published) if stream.caller == published.caller]
        if not streams or not uid_of(sent):
            raise RequestRefused(
                400, "a token request needs an identifier, and a subscription to token requests on its connection"
            )
        account = ObjectKey.of(sent)
        path = resources.SERVICE_ACCOUNTS.path(account, subresource="token")
        answer = decode(await self.client.request("POST", path, body=payloads.token_request(sent)))
        metadata = {"name": account.name, "namespace": account.namespace, "uid": uid_of(sent)}
        kind = cloud_events.EventType(
            cloud_events.DataType.TOKEN_REQUEST, cloud_events.SubResource.SPEC, cloud_events.Action.CREATE
        )
        event = token_event(
            {**answer, "metadata": metadata}, uid_of(sent), published.cluster, kind, now=self.objects.clock.now()
        )
        for stream in streams:
            stream.offer(uid_of(sent), PendingAnswer(event))

    async def _report_work(self, published: Published) -> None:
        kind, cluster, event = published.kind, published.cluster, published.event
        if (kind.subresource, kind.action) != (cloud_events.SubResource.STATUS, cloud_events.Action.UPDATE):
            raise UnknownEventType(f"an agent does not send {kind}: send an event that the protocol defines")
        await self.authorizer.authorize(published.caller, cluster, choose_access(kind, cluster))
        present = self._find_work(event.text(cloud_events.Attribute.RESOURCE_ID), cluster)
        status = work_status(event)
        if present is None:  # deleted meanwhile
            return
        may_change = ResourceAccess("update", resources.MANIFEST_WORKS, ObjectKey(cluster, ""))
        await self.authorizer.authorize(published.caller, cluster, may_change)
        works = resources.MANIFEST_WORKS
        if is_true({"status": status}, DELETED):
            await remove_finalizer(self.client, works, present, Finalizer.MANIFEST_WORK)
            return
        if int(present["metadata"].get("generation") or 0) > event.number(cloud_events.Attribute.RESOURCE_VERSION):
            return  # about an earlier version of the work
        if not is_deleting(present):
            present = await add_finalizer(self.client, works, present, Finalizer.MANIFEST_WORK)
        patch = {"metadata": {"uid": uid_of(present)}, "status": status}
        await self.client.patch(works, ObjectKey.of(present), patch, subresource="status")

    def _find_work(self, uid: str, cluster: str) -> Object | None:
        found = self.objects.cache.by_index(resources.MANIFEST_WORKS, "uid", uid) if uid else []
        own = [work for work in found if work["metadata"].get("namespace") == cluster]
        if found and not own:
            raise RequestRefused(403, f"the work is not one of cluster {cluster}: correct clustername")
        return next(iter(own), None)


def work_status(event: cloud_events.CloudEvent) -> Object:
    """Return the status of a ManifestWork from the data of an event; `RequestRefused` when it is not one."""
    data = event.json()
    conditions, manifests = data.get("conditions") or [], data.get("resourceStatus") or []
    rows = (conditions, manifests)
    if not all(isinstance(row, list) and all(isinstance(each, dict) for each in row) for row in rows):
        raise RequestRefused(400, "the status of the work is not one: conditions and resourceStatus are lists")
    return {"conditions": conditions, "resourceStatus": {"manifests": manifests}}


def _named(kind: cloud_events.EventType, sent: Object) -> str:
    """Return the name that a right may be restricted to; requests for certificates are created under any name."""
    unrestricted = kind.data_type in (cloud_events.DataType.CERTIFICATE_REQUEST, cloud_events.DataType.EVENT)
    return "" if unrestricted and kind.action is cloud_events.Action.CREATE else str(sent["metadata"].get("name") or "")


_SPEC, _STATUS = cloud_events.SubResource.SPEC, cloud_events.SubResource.STATUS
_WRITES: dict[tuple[cloud_events.DataType, cloud_events.SubResource, cloud_events.Action], Write] = {
    (cloud_events.DataType.MANAGED_CLUSTER, _SPEC, cloud_events.Action.CREATE): Publisher.create_cluster,
    (cloud_events.DataType.MANAGED_CLUSTER, _SPEC, cloud_events.Action.UPDATE): Publisher.update_cluster,
    (cloud_events.DataType.MANAGED_CLUSTER, _STATUS, cloud_events.Action.UPDATE): Publisher.update_status,
    (cloud_events.DataType.CERTIFICATE_REQUEST, _SPEC, cloud_events.Action.CREATE): Publisher.request_certificate,
    (cloud_events.DataType.LEASE, _SPEC, cloud_events.Action.UPDATE): Publisher.renew_lease,
    (cloud_events.DataType.EVENT, _SPEC, cloud_events.Action.CREATE): Publisher.create_event,
    (cloud_events.DataType.EVENT, _SPEC, cloud_events.Action.UPDATE): Publisher.update_event,
    (cloud_events.DataType.ADDON, _STATUS, cloud_events.Action.UPDATE): Publisher.update_status,
    (cloud_events.DataType.ADDON_V1ALPHA1, _STATUS, cloud_events.Action.UPDATE): Publisher.update_status,
    (cloud_events.DataType.TOKEN_REQUEST, _SPEC, cloud_events.Action.CREATE): Publisher.request_token,
}
"""What agents may send besides resyncs and the status of works."""
