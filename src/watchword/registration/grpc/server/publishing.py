"""Writes what agents publish: each data type accepts few actions, and every write is rebuilt from the payload."""

from collections.abc import Awaitable, Callable, Hashable

import orjson
from msgspec import Struct

from watchword.api.cluster import validate_cluster_name
from watchword.api.conditions import is_true
from watchword.api.limits import LONGEST_AGENT_TOKEN_SECONDS
from watchword.api.meta import Object, ObjectKey, annotations_of, finalizers_of, is_deleting, labels_of, uid_of
from watchword.api.names import (
    CLUSTER_LEASE,
    HUB_ANNOTATIONS,
    KUBE_CLIENT_SIGNER,
    Annotation,
    Finalizer,
    Label,
)
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SERVICE_ACCOUNTS,
)
from watchword.api.validation import is_dns_subdomain
from watchword.credentials.certificates import requests
from watchword.credentials.certificates.requests import CertificateRequestRefused
from watchword.kube.access_reviews import ResourceAccess, UserIdentity
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.kube.request_sender import decode
from watchword.registration.grpc.cloud_events import (
    RESOURCES,
    Action,
    Attribute,
    CloudEvent,
    DataType,
    EventType,
    SubResource,
)
from watchword.registration.grpc.errors import RequestRefused, UnknownEventType
from watchword.registration.grpc.server.authorization import Caller, choose_access
from watchword.registration.grpc.server.hub_objects import EventStream, HubObjects, PendingChange, token_event
from watchword.runtime.ensure import add_finalizer, remove_finalizer

_EVENT_FIELDS = (
    "action deprecatedCount deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource eventTime note reason "
    "regarding related reportingController reportingInstance series type"
)
_REQUEST_FIELDS = ("request", "signerName", "usages", "expirationSeconds")


def require_cluster_name(name: str) -> str:
    """Return the name; `RequestRefused` when it cannot be that of a cluster."""
    objection = validate_cluster_name(name)
    if objection:
        raise RequestRefused(400, f"the cluster name of the request is refused: {objection}")
    return name


def read_payload(event: CloudEvent, kind: EventType, cluster: str) -> Object:
    """Return the object in an event; `RequestRefused` unless it belongs to the cluster in the attributes."""
    obj = event.json()
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not _are_texts(metadata, "name", "namespace", "uid", "resourceVersion"):
        raise RequestRefused(400, "the object in the event has no metadata, or metadata of another type")
    _require_kind(obj, kind)
    _require_place(obj, kind, cluster)
    claimed = event.text(Attribute.RESOURCE_ID)
    if claimed and uid_of(obj) and claimed != uid_of(obj):
        raise RequestRefused(400, "resourceid and the UID of the object in the event differ")
    return obj


def _are_texts(metadata: Object, *names: str) -> bool:
    maps = all(isinstance(metadata.get(name) or {}, dict) for name in ("labels", "annotations"))
    return maps and all(isinstance(metadata.get(name) or "", str) for name in names)


def _require_kind(obj: Object, kind: EventType) -> None:
    if kind.data_type is DataType.TOKEN_REQUEST:
        expected = ("authentication.k8s.io/v1", "TokenRequest")
    else:
        resource = RESOURCES[kind.data_type]
        expected = (resource.api_version, resource.kind)
    found = (obj.get("apiVersion") or expected[0], obj.get("kind") or expected[1])
    if found != expected:
        raise RequestRefused(400, f"the object in the event is not a {expected[1]} of {expected[0]}")


def _require_place(obj: Object, kind: EventType, cluster: str) -> None:
    key = ObjectKey.of(obj)
    resource = RESOURCES.get(kind.data_type)
    namespace = cluster if resource is None or resource.namespaced else ""
    if key.namespace != namespace or not is_dns_subdomain(key.name):
        raise RequestRefused(403, f"the object in the event is not one of cluster {cluster}: correct clustername")
    expected = {DataType.MANAGED_CLUSTER: cluster, DataType.LEASE: CLUSTER_LEASE}.get(kind.data_type, key.name)
    if key.name != expected:
        raise RequestRefused(403, f"cluster {cluster} may send only the object named {expected}")


def new_cluster(sent: Object) -> Object:
    """Return the ManagedCluster to create: never accepted, without status."""
    _require_not_accepted(sent, accepted=False)
    spec = {name: value for name, value in _spec(sent).items() if name != "hubAcceptsClient"}
    return MANAGED_CLUSTERS.manifest(
        ObjectKey.of(sent), metadata=_notes(sent), spec={**spec, "hubAcceptsClient": False}
    )


def changed_cluster(sent: Object, present: Object) -> Object:
    """Return the ManagedCluster with what an agent may change: labels, annotations, client configurations.

    An agent whose cluster leaves may also take the acceptance back, in the newest version alone: one that has not seen
    the acceptance yet sends `hubAcceptsClient: false`, too.
    """
    spec: Object = present.get("spec") or {}
    leaves = _spec(sent).get("hubAcceptsClient") is False and "resourceVersion" in versions_of(sent)
    _require_not_accepted(sent, accepted=not leaves and spec.get("hubAcceptsClient") is True)
    kept = {name: value for name, value in present["metadata"].items() if name not in ("labels", "annotations")}
    noted = {name: value for name, value in annotations_of(present).items() if name in HUB_ANNOTATIONS}
    configs = {name: value for name, value in _spec(sent).items() if name == "managedClusterClientConfigs"}
    return {
        **present,
        "metadata": {**kept, **_notes(sent), "annotations": noted | annotations_of(sent), **versions_of(sent)},
        "spec": {**spec, **configs, **({"hubAcceptsClient": False} if leaves else {})},
    }


def _require_not_accepted(sent: Object, *, accepted: bool) -> None:
    if (_spec(sent).get("hubAcceptsClient") is True) != accepted:
        raise RequestRefused(403, "an agent does not decide whether its cluster is accepted: leave hubAcceptsClient")


def new_certificate_request(sent: Object, cluster: str, user: UserIdentity) -> Object:
    """Return the request to create, with the authenticated user noted on it; `RequestRefused` for any other form."""
    labels = {name: value for name, value in labels_of(sent).items() if name in (Label.CLUSTER_NAME, Label.ADDON_NAME)}
    if labels.get(Label.CLUSTER_NAME) != cluster:
        raise RequestRefused(403, f"the certificate request is not labelled as one of cluster {cluster}")
    asked = _spec(sent)
    spec = {name: asked[name] for name in _REQUEST_FIELDS if asked.get(name) is not None}
    notes = {Annotation.CSR_USER: user.username, Annotation.CSR_GROUPS: orjson.dumps(sorted(user.groups)).decode()}
    request = CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.of(sent), metadata={"labels": labels, "annotations": notes}, spec=spec
    )
    _require_well_formed(request)
    return request


def _require_well_formed(request: Object) -> None:
    signer = str(request["spec"].get("signerName") or "")
    try:
        if Label.ADDON_NAME not in labels_of(request):
            requests.read_cluster_request(request)
        elif signer == KUBE_CLIENT_SIGNER:
            requests.read_addon_request(request)
        else:
            requests.read_signer_request(request, signer)
    except (CertificateRequestRefused, TypeError, AttributeError) as cause:  # fields of other types
        reason = cause if isinstance(cause, CertificateRequestRefused) else "a field has another type"
        raise RequestRefused(400, f"the certificate request is refused: {reason}") from cause


def renewed_lease(sent: Object, present: Object, cluster: str) -> Object:
    """Return the Lease to write; it keeps its labels, by which the hub's controllers find it."""
    notes = _notes(present)
    labels = {**labels_of(present), Label.CLUSTER_NAME: cluster}
    return LEASES.manifest(
        ObjectKey.of(sent), metadata={**notes, "labels": labels, **versions_of(sent)}, spec=_spec(sent)
    )


def recorded_event(sent: Object) -> Object:
    fields = {name: sent[name] for name in _EVENT_FIELDS.split() if name in sent}
    return EVENTS.manifest(ObjectKey.of(sent), metadata=_notes(sent), **fields)


def event_series(sent: Object) -> Object:
    """Return the change of an Event that was repeated; `RequestRefused` when it contains no series."""
    if not isinstance(sent.get("series"), dict):
        raise RequestRefused(400, "the update of an Event contains no series")
    return {"series": sent["series"]}


def reported_status(sent: Object, kind: EventType) -> Object:
    status = sent.get("status")
    if not isinstance(status, dict):
        raise RequestRefused(400, "the object in the event has no status")
    return RESOURCES[kind.data_type].manifest(ObjectKey.of(sent), metadata=versions_of(sent), status=status)


def token_request(sent: Object) -> Object:
    """Return the TokenRequest to send: for this hub alone, and for a year and a day at most."""
    asked = _spec(sent)
    seconds = asked.get("expirationSeconds")
    if asked.get("audiences") or asked.get("boundObjectRef"):
        raise RequestRefused(403, "agents may request tokens for this hub alone: name no audience and no object")
    if seconds is not None and (not isinstance(seconds, int) or not 0 < seconds <= LONGEST_AGENT_TOKEN_SECONDS):
        raise RequestRefused(403, f"agents may request tokens of at most {LONGEST_AGENT_TOKEN_SECONDS} seconds")
    spec = {} if seconds is None else {"expirationSeconds": seconds}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [], **spec}}


def versions_of(sent: Object) -> Object:
    metadata = sent["metadata"]
    return {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}


def is_of_another_version(sent: Object, present: Object) -> bool:
    """Whether an object was read in another version than the present one; not when it does not say."""
    return any(present["metadata"].get(name) != value for name, value in versions_of(sent).items())


def _notes(sent: Object) -> Object:
    metadata = sent["metadata"]
    return {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}


def _spec(sent: Object) -> Object:
    spec = sent.get("spec") or {}
    if not isinstance(spec, dict):
        raise RequestRefused(400, "the spec of the object in the event is not an object")
    return spec


DELETED = "Deleted"
"""The condition of a work that its agent has removed from the cluster."""


class Published(Struct, frozen=True):
    """One event that was authenticated and authorized for its cluster."""

    event: CloudEvent
    kind: EventType
    cluster: str
    caller: Caller
    connection: Hashable


Write = Callable[["Publisher", Published, Object], Awaitable[None]]


class Publisher(Struct, frozen=True):
    """Handles published events."""

    client: Client
    objects: HubObjects

    async def publish(self, event: CloudEvent, caller: Caller, connection: Hashable) -> None:
        """Do what an event asks for, if its sender may; raises what `grpc_error` understands."""
        kind = EventType.parse(event.type)
        cluster = require_cluster_name(event.text(Attribute.CLUSTER_NAME))
        published = Published(event, kind, cluster, caller, connection)
        if kind.action is Action.RESYNC_REQUEST and kind.subresource is SubResource.SPEC:
            await self.objects.authorizer.authorize(caller, cluster, choose_access(kind, cluster))
            await self.objects.ensure_followed(kind.data_type)
            self.objects.resync(event, kind.data_type, self._own_streams(published), cluster)
        elif kind.data_type is DataType.MANIFEST_BUNDLE:
            await self._report_work(published)
        else:
            write = _WRITES.get((kind.data_type, kind.subresource, kind.action))
            if write is None:
                raise UnknownEventType(f"an agent does not send {kind}: send an event that the protocol defines")
            sent = read_payload(event, kind, cluster)
            access = choose_access(kind, cluster, _named(kind, sent))
            await self.objects.authorizer.authorize(caller, cluster, access)
            await write(self, published, sent)

    def _own_streams(self, published: Published) -> list[EventStream]:
        """Return the streams of the very connection: nothing is sent to others that subscribe for the same cluster."""
        streams = self.objects.streams.of(published.cluster, published.kind.data_type)
        return [stream for stream in streams if stream.connection == published.connection]

    async def create_cluster(self, _published: Published, sent: Object) -> None:
        await self.client.create(MANAGED_CLUSTERS, new_cluster(sent))

    async def update_cluster(self, published: Published, sent: Object) -> None:
        key = ObjectKey.cluster(published.cluster)
        present = self.objects.cache.get(MANAGED_CLUSTERS, key)
        if present is None or is_of_another_version(sent, present):
            # The agent may have read from another replica.
            present = await self.client.get(MANAGED_CLUSTERS, key)
        await self.client.update(MANAGED_CLUSTERS, changed_cluster(sent, present))

    async def update_status(self, published: Published, sent: Object) -> None:
        resource = RESOURCES[published.kind.data_type]
        await self.client.update(resource, reported_status(sent, published.kind), subresource="status")

    async def request_certificate(self, published: Published, sent: Object) -> None:
        request = new_certificate_request(sent, published.cluster, published.caller.user)
        await self.client.create(CERTIFICATE_SIGNING_REQUESTS, request)

    async def renew_lease(self, published: Published, sent: Object) -> None:
        key = ObjectKey.of(sent)
        present = self.objects.cache.get(LEASES, key) or await self.client.get(LEASES, key)
        await self.client.update(LEASES, renewed_lease(sent, present, published.cluster))

    async def create_event(self, _published: Published, sent: Object) -> None:
        await self.client.create(EVENTS, recorded_event(sent))

    async def update_event(self, _published: Published, sent: Object) -> None:
        """Record the repetition of an Event: agents send its series, and nothing else of it."""
        await self.client.patch(EVENTS, ObjectKey.of(sent), event_series(sent))

    async def request_token(self, published: Published, sent: Object) -> None:
        """Request a token, and send it to the subscription of the same connection alone."""
        streams = [stream for stream in self._own_streams(published) if stream.caller == published.caller]
        if not streams or not uid_of(sent):
            raise RequestRefused(
                400, "a token request needs an identifier, and a subscription to token requests on its connection"
            )
        account = ObjectKey.of(sent)
        path = SERVICE_ACCOUNTS.path(account, subresource="token")
        answer = decode(await self.client.request("POST", path, body=token_request(sent)))
        metadata = {"name": account.name, "namespace": account.namespace, "uid": uid_of(sent)}
        answer = {**answer, "metadata": metadata}
        event = token_event(answer, uid_of(sent), published.cluster, published.kind, now=self.objects.clock.now())
        for stream in streams:
            stream.offer(uid_of(sent), PendingChange(event=event))

    async def _report_work(self, published: Published) -> None:
        kind, cluster, event = published.kind, published.cluster, published.event
        if (kind.subresource, kind.action) != (SubResource.STATUS, Action.UPDATE):
            raise UnknownEventType(f"an agent does not send {kind}: send an event that the protocol defines")
        await self.objects.authorizer.authorize(published.caller, cluster, choose_access(kind, cluster))
        present = self._find_work(event.text(Attribute.RESOURCE_ID), cluster)
        status = work_status(event)
        if present is None:  # deleted meanwhile
            return
        may_change = ResourceAccess("update", MANIFEST_WORKS, ObjectKey(cluster, ""))
        await self.objects.authorizer.authorize(published.caller, cluster, may_change)
        deleted = is_true({"status": status}, DELETED)
        if not deleted and int(present["metadata"].get("generation") or 0) > event.number(Attribute.RESOURCE_VERSION):
            return  # about an earlier version of the work
        if deleted or Finalizer.MANIFEST_WORK not in finalizers_of(present):
            present = await self._read_work(present)  # the cache may not show yet what an earlier report wrote
        if present is None:
            return
        if deleted:
            await remove_finalizer(self.client, MANIFEST_WORKS, present, Finalizer.MANIFEST_WORK)
            return
        if not is_deleting(present):
            present = await add_finalizer(self.client, MANIFEST_WORKS, present, Finalizer.MANIFEST_WORK)
        patch = {"metadata": {"uid": uid_of(present)}, "status": status}
        await self.client.patch(MANIFEST_WORKS, ObjectKey.of(present), patch, subresource="status")

    async def _read_work(self, work: Object) -> Object | None:
        """Return the work as it is at the API server; None when it is gone."""
        try:
            newest = await self.client.get(MANIFEST_WORKS, ObjectKey.of(work))
        except NotFound:
            return None
        return newest if uid_of(newest) == uid_of(work) else None

    def _find_work(self, uid: str, cluster: str) -> Object | None:
        found = self.objects.cache.by_index(MANIFEST_WORKS, "uid", uid) if uid else []
        own = [work for work in found if work["metadata"].get("namespace") == cluster]
        if found and not own:
            raise RequestRefused(403, f"the work is not one of cluster {cluster}: correct clustername")
        return next(iter(own), None)


def work_status(event: CloudEvent) -> Object:
    """Return the status of a ManifestWork from the data of an event; `RequestRefused` when it is not one."""
    data = event.json()
    conditions, manifests = data.get("conditions") or [], data.get("resourceStatus") or []
    rows = (conditions, manifests)
    if not all(isinstance(row, list) and all(isinstance(each, dict) for each in row) for row in rows):
        raise RequestRefused(400, "the status of the work is not one: conditions and resourceStatus are lists")
    return {"conditions": conditions, "resourceStatus": {"manifests": manifests}}


def _named(kind: EventType, sent: Object) -> str:
    """Return the name that a right may be restricted to; requests for certificates are created under any name."""
    unrestricted = kind.data_type in (DataType.CERTIFICATE_REQUEST, DataType.EVENT)
    return "" if unrestricted and kind.action is Action.CREATE else str(sent["metadata"].get("name") or "")


_WRITES: dict[tuple[DataType, SubResource, Action], Write] = {
    (DataType.MANAGED_CLUSTER, SubResource.SPEC, Action.CREATE): Publisher.create_cluster,
    (DataType.MANAGED_CLUSTER, SubResource.SPEC, Action.UPDATE): Publisher.update_cluster,
    (DataType.MANAGED_CLUSTER, SubResource.STATUS, Action.UPDATE): Publisher.update_status,
    (DataType.CERTIFICATE_REQUEST, SubResource.SPEC, Action.CREATE): Publisher.request_certificate,
    (DataType.LEASE, SubResource.SPEC, Action.UPDATE): Publisher.renew_lease,
    (DataType.EVENT, SubResource.SPEC, Action.CREATE): Publisher.create_event,
    (DataType.EVENT, SubResource.SPEC, Action.UPDATE): Publisher.update_event,
    (DataType.ADDON, SubResource.STATUS, Action.UPDATE): Publisher.update_status,
    (DataType.ADDON_V1ALPHA1, SubResource.STATUS, Action.UPDATE): Publisher.update_status,
    (DataType.TOKEN_REQUEST, SubResource.SPEC, Action.CREATE): Publisher.request_token,
}
"""What agents may send besides resyncs and the status of works."""
