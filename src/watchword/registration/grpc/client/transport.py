"""The transport over gRPC: answers the requests of an agent as the hub's API server would."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from urllib.parse import unquote
from uuid import uuid4

import orjson
from msgspec import Struct

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.names import Label
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.kube.client import PatchType
from watchword.kube.errors import ApiStatusError, TimedOut, Unreachable
from watchword.kube.watch_stream import INITIAL_EVENTS_END
from watchword.registration.grpc.client.channel import EventChannel, make_refusal, run_apart
from watchword.registration.grpc.client.object_events import ObjectCodec, WorkCodec, agent_event
from watchword.registration.grpc.client.object_store import (
    EventFeed,
    ObjectStore,
    ObjectStores,
    ObjectSubscription,
    StoredObject,
)
from watchword.registration.grpc.cloud_events import Action, Attribute, CloudEvent, DataType, EventType, SubResource
from watchword.runtime.diff import apply_merge_patch

_TARGET = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
)


class RequestTarget(Struct, frozen=True):
    """What a path names; parts that it does not have are empty."""

    resource: tuple[str, str, str]  # group, version and plural
    key: ObjectKey
    subresource: str


def parse_target(path: str) -> RequestTarget:
    """Read a path; a refusal when it is not that of a resource."""
    match = _TARGET.fullmatch(path)
    if match is None:
        raise make_refusal(405, "MethodNotAllowed", f"the gRPC server of a hub does not serve {path}")
    group, version, namespace, plural, name, subresource = map(unquote, match.groups(""))
    return RequestTarget((group, version, plural), ObjectKey(namespace, name), subresource)


def _require_whole_kind(target: RequestTarget, request: Request, cluster: str) -> None:
    """Refuse other selectors than an agent's own: the hub sends the objects of its cluster alone, and all of them."""
    asked = {request.parameter("fieldSelector"), request.parameter("labelSelector")}
    is_own = asked <= {"", f"metadata.name={cluster}", f"{Label.CLUSTER_NAME}={cluster}"}
    if not is_own or target.key.namespace not in ("", cluster):
        advice = "over gRPC a cluster reads all of its objects of a kind: leave selectors and other namespaces out"
        raise make_refusal(400, "BadRequest", advice)


ANSWER_SECONDS = 10.0
TOKEN_REQUEST = EventType(DataType.TOKEN_REQUEST, SubResource.SPEC, Action.CREATE)


async def request_token(channel: EventChannel, account: ObjectKey, body: Object) -> Object:
    """Return the TokenRequest with its answer; raises the server's refusal, or `TimedOut`."""
    request_id = str(uuid4())  # the UID is the only field by which the answer can be recognised
    metadata = {"name": account.name, "namespace": account.namespace, "uid": request_id}
    spec = {name: value for name, value in (body.get("spec") or {}).items() if value}
    wanted: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    wanted |= {"metadata": metadata, "spec": spec}
    event = agent_event(TOKEN_REQUEST, channel.cluster, {Attribute.RESOURCE_ID: request_id}, wanted)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await run_apart(_exchange_token(channel, event, request_id))
    except TimeoutError as cause:
        raise TimedOut(f"the hub did not answer the token request within {ANSWER_SECONDS:g} seconds") from cause
    return {**answer, "metadata": {"name": account.name, "namespace": account.namespace}}


async def _exchange_token(channel: EventChannel, event: CloudEvent, request_id: str) -> Object:
    async with channel.subscribe(DataType.TOKEN_REQUEST) as subscription:
        await channel.publish(event)
        async for received in subscription.events:
            answer = received.json() if received.data else {}
            if uid_of(answer) == request_id:
                return answer
    raise TimedOut("the hub ended the subscription before it answered the token request")


ECHO_SECONDS = 2.0
"""How long a second write of an object waits for the hub's version of the first; the hub refuses older versions."""


async def _publish_change(
    channel: EventChannel, store: ObjectStore, key: ObjectKey, type_: EventType, change: Callable[[Object], Object]
) -> StoredObject:
    """Change an object; a refusal when it does not exist, or was changed or replaced meanwhile."""
    async with store.writing:
        if store.codec.returns_writes:
            await _wait_for(store, key, lambda found: found is None or not found.is_written)
        stored = store.require(key)
        present = stored.object
        changed = change(present)
        for name in ("uid", "resourceVersion"):
            wanted = changed["metadata"].get(name)
            if wanted and wanted != present["metadata"].get(name):
                raise make_refusal(409, "Conflict", f"{key} was changed or replaced meanwhile: read it again")
        known = {**changed, "metadata": {**changed["metadata"], "resourceVersion": stored.version}}
        await channel.publish(store.codec.encode(type_, known, channel.cluster))
        latest = store.find(key)
        if latest is None or latest.revision != stored.revision:
            return latest or stored  # the hub's result was faster
        return store.write(stored, changed)


async def _wait_for(store: ObjectStore, key: ObjectKey, is_settled: Callable[[StoredObject | None], bool]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ECHO_SECONDS):
            while not is_settled(store.find(key)):
                await store.wait_changed()


async def watch_lines(
    store: ObjectStore, feed: EventFeed, *, is_new: bool, seconds: float | None
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a watch for some seconds, of present objects only when it is new; raises why events ended."""
    end = None if seconds is None else asyncio.get_running_loop().time() + seconds
    sent: dict[str, StoredObject] = {}
    lines, position = list(watch_changes(store, sent, since=-1)), store.revision
    if is_new:
        for line in lines:
            yield line
        yield _line("BOOKMARK", _bookmark(store.codec.resource, position))
    while True:
        lines, position = list(watch_changes(store, sent, since=position)), store.revision
        for line in lines:
            yield line
        feed.raise_failure()
        try:
            async with asyncio.timeout_at(end):
                while position == store.revision and not feed.is_over:
                    await store.wait_changed()
        except TimeoutError:
            return


def watch_changes(store: ObjectStore, sent: dict[str, StoredObject], *, since: int) -> Iterator[bytes]:
    """Yield the lines for what differs from what a watch has sent, by UID, and note what it has sent then."""
    present = {stored.uid: stored for stored in store}
    for uid in [uid for uid in sent if uid not in present]:
        gone = sent.pop(uid)
        last, following = gone.object, store.find(gone.key)
        version = store.revision if following is None else following.revision - 1  # older than what has its name now
        last["metadata"]["resourceVersion"] = str(version)
        yield _line("DELETED", orjson.dumps(last))
    changed = [stored for stored in present.values() if stored.revision > since]
    for stored in sorted(changed, key=lambda each: each.revision):
        known, sent[stored.uid] = sent.get(stored.uid), stored
        yield _line("ADDED" if known is None else "MODIFIED", stored.raw)


def _line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), raw)


def _bookmark(resource: Resource, revision: int) -> bytes:
    metadata = {"resourceVersion": str(revision), "annotations": {INITIAL_EVENTS_END: "true"}}
    return orjson.dumps({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})


_CREATE = {("POST", ""): (SubResource.SPEC, Action.CREATE)}
_UPDATE = {("PUT", ""): (SubResource.SPEC, Action.UPDATE)}
_REPORT = {("PATCH", "status"): (SubResource.STATUS, Action.UPDATE)}


class ServedKind(Struct, frozen=True, kw_only=True):
    """What the protocol carries of one kind."""

    codec: ObjectCodec
    writes: Mapping[tuple[str, str], tuple[SubResource, Action]]  # by method and subresource
    lingers: bool = False  # read again and again, but never watched


SERVED_KINDS = (
    ServedKind(codec=ObjectCodec(DataType.MANAGED_CLUSTER), writes=_CREATE | _UPDATE | _REPORT),
    ServedKind(codec=ObjectCodec(DataType.ADDON), writes=_REPORT),
    ServedKind(codec=ObjectCodec(DataType.CERTIFICATE_REQUEST), writes=_CREATE),
    ServedKind(
        codec=ObjectCodec(DataType.LEASE),
        lingers=True,
        writes=_UPDATE | {("PATCH", ""): (SubResource.SPEC, Action.UPDATE)},
    ),
    ServedKind(codec=WorkCodec(), writes=_REPORT | {("PATCH", ""): (SubResource.STATUS, Action.UPDATE)}),
)


class GrpcTransport:
    """Sends the requests of one agent over one gRPC connection.

    What the hub sends is kept, so that reads and watches need no requests. A read of one object asks the hub whether
    there is a newer version. What the protocol does not carry is refused as an API server would refuse it.
    """

    def __init__(self, channel: EventChannel, stores: ObjectStores) -> None:
        self._channel = channel
        self._stores = stores
        named = ((each.codec.resource, each) for each in SERVED_KINDS)
        self._kinds = {(found.group, found.version, found.plural): each for found, each in named}
        self._subscriptions: dict[DataType, ObjectSubscription] = {}
        self._in_flight = 0
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Answer one request; a refusal is an answer, too."""
        self._require_open()
        self._in_flight += 1
        try:
            return await self._dispatch(request)
        except ApiStatusError as refused:
            return refusal_response(refused)
        finally:
            self._in_flight -= 1
            await self._close_if_unused()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        """Answer a watch; inside the context `Response.stream` yields its lines."""
        self._require_open()
        async with AsyncExitStack() as stack:
            try:
                response = await self._watch(request, stack)
            except ApiStatusError as refused:
                response = refusal_response(refused)
            yield response

    async def _watch(self, request: Request, stack: AsyncExitStack) -> Response:
        target = parse_target(request.path)
        kind = self._kinds.get(target.resource)
        if kind is None or not request.parameter("watch"):
            return await self.send(request)
        _require_whole_kind(target, request, self._channel.cluster)
        subscription = self._subscription(kind)
        feed = await stack.enter_async_context(subscription.use())
        since = request.parameter("resourceVersion")
        is_new = request.parameter("sendInitialEvents") == "true" or since in ("", "0")
        if not is_new and since != str(subscription.store.revision):
            raise make_refusal(410, "Expired", "the changes since that resourceVersion are not known: list again")
        seconds = float(request.parameter("timeoutSeconds") or 0) or None
        lines = watch_lines(subscription.store, feed, is_new=is_new, seconds=seconds)
        return Response(200, stream=await stack.enter_async_context(aclosing(lines)))

    async def close(self) -> None:
        """Refuse requests from now on; those under way end first."""
        self._closed = True
        await self._close_if_unused()

    def _require_open(self) -> None:
        if self._closed:
            raise Unreachable("the connection to the hub is closed", maybe_processed=False)

    async def _close_if_unused(self) -> None:
        if self._closed and self._in_flight == 0:
            for subscription in self._subscriptions.values():
                await subscription.stop()
            self._channel.close()

    async def _dispatch(self, request: Request) -> Response:
        target = parse_target(request.path)
        if (request.method, target.resource[2], target.subresource) == ("POST", SERVICE_ACCOUNTS.plural, "token"):
            answer = await request_token(self._channel, target.key, orjson.loads(request.body))
            return json_response(answer, 201)
        kind = self._kinds.get(target.resource)
        carried = None if kind is None else kind.writes.get((request.method, target.subresource))
        if kind is not None and request.method == "GET":
            return await (self._get(kind, target.key) if target.key.name else self._list(kind, target, request))
        is_merge = request.method == "PATCH" and request.header("Content-Type") == PatchType.MERGE
        if kind is None or carried is None or not (is_merge or request.method in ("POST", "PUT")):
            message = f"the gRPC server of a hub does not serve {request.method} {request.path}"
            raise make_refusal(405, "MethodNotAllowed", message)
        type_, body = EventType(kind.codec.data_type, *carried), orjson.loads(request.body)
        if request.method == "POST":
            return json_response(await self._create(kind, type_, body), 201)
        subscription = self._subscription(kind)
        async with subscription.use():
            change = (lambda stored: apply_merge_patch(stored, body)) if is_merge else lambda _: body
            stored = await _publish_change(self._channel, subscription.store, target.key, type_, change)
        return json_response(stored.raw)

    async def _get(self, kind: ServedKind, key: ObjectKey) -> Response:
        subscription = self._subscription(kind)
        await subscription.refresh()
        return json_response(subscription.store.require(key).raw)

    async def _list(self, kind: ServedKind, target: RequestTarget, request: Request) -> Response:
        _require_whole_kind(target, request, self._channel.cluster)
        subscription = self._subscription(kind)
        await subscription.refresh()
        resource, store = kind.codec.resource, subscription.store
        listed = {
            "apiVersion": resource.api_version,
            "kind": f"{resource.kind}List",
            "metadata": {"resourceVersion": str(store.revision)},
            "items": [stored.object for stored in store],
        }
        return json_response(listed)

    async def _create(self, kind: ServedKind, type_: EventType, obj: Object) -> Object:
        """Create an object; return it as the hub sends it, or as it was sent where that takes long."""
        subscription, key = self._subscription(kind), ObjectKey.of(obj)
        store = subscription.store
        async with subscription.use():  # a watch that begins later finds the object in the store
            if store.find(key) is not None:
                message = f"{kind.codec.resource.group_resource} {key.name!r} already exists"
                raise make_refusal(409, "AlreadyExists", message)
            await self._channel.publish(kind.codec.encode(type_, obj, self._channel.cluster))
            await _wait_for(store, key, lambda found: found is not None)
        stored = store.find(key)
        return obj if stored is None else stored.object

    def _subscription(self, kind: ServedKind) -> ObjectSubscription:
        data_type = kind.codec.data_type
        found = self._subscriptions.get(data_type)
        if found is None:
            store = self._stores.get(data_type) or self._stores.setdefault(data_type, ObjectStore(kind.codec))
            found = self._subscriptions[data_type] = ObjectSubscription(self._channel, store, lingers=kind.lingers)
        return found


def json_response(obj: Object | bytes, status: int = 200) -> Response:
    body = obj if isinstance(obj, bytes) else orjson.dumps(obj)
    return Response(status, (("Content-Type", "application/json"),), body)


def refusal_response(refused: ApiStatusError) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": refused.code}
    status |= {"message": str(refused), "reason": refused.reason, **refused.status}
    return json_response(status, refused.code)
