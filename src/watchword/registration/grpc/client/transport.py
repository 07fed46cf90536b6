"""The transport over gRPC: answers the requests of an agent as the hub's API server would."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from urllib.parse import unquote
from uuid import uuid4

import orjson
from msgspec import Struct, field

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource, labels_of, uid_of
from watchword.api.resources import (
    SERVICE_ACCOUNTS,
)
from watchword.api.selectors import LabelSelector, SelectorError, parse_field_selector, parse_label_selector
from watchword.kube.client import PatchType
from watchword.kube.errors import ApiStatusError, TimedOut, Unreachable
from watchword.kube.watch_stream import INITIAL_EVENTS_END
from watchword.registration.grpc.client.channel import EventChannel, make_refusal
from watchword.registration.grpc.client.object_events import (
    ObjectCodec,
    WorkCodec,
    agent_event,
)
from watchword.registration.grpc.client.object_store import (
    EventFeed,
    ObjectStore,
    ObjectStores,
    ObjectSubscription,
    StoredObject,
)
from watchword.registration.grpc.cloud_events import Action, Attribute, DataType, EventType, SubResource
from watchword.runtime.diff import apply_merge_patch

ANSWER_SECONDS = 10.0
TOKEN_REQUEST = EventType(DataType.TOKEN_REQUEST, SubResource.SPEC, Action.CREATE)


class TokenRequester(Struct, frozen=True):
    """Sends one token request at a time over a subscription of its own."""

    channel: EventChannel

    async def request(self, account: ObjectKey, body: Object) -> Object:
        """Return the TokenRequest with its answer; raises the server's refusal, or `TimedOut`."""
        request_id = str(uuid4())  # the UID is the only field by which the answer can be recognised
        metadata = {"name": account.name, "namespace": account.namespace, "uid": request_id}
        spec = {name: value for name, value in (body.get("spec") or {}).items() if value}
        wanted: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        wanted |= {"metadata": metadata, "spec": spec}
        event = agent_event(TOKEN_REQUEST, self.channel.cluster, {Attribute.RESOURCE_ID: request_id}, wanted)
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self.channel.subscribe(DataType.TOKEN_REQUEST) as subscription,
            ):
                await self.channel.publish(event)
                async for received in subscription.events:
                    answer = received.json() if received.data else {}
                    if uid_of(answer) == request_id:
                        return {**answer, "metadata": {"name": account.name, "namespace": account.namespace}}
        except TimeoutError as cause:
            raise TimedOut(f"the hub did not answer the token request within {ANSWER_SECONDS:g} seconds") from cause
        raise TimedOut("the hub ended the subscription before it answered the token request")


ECHO_SECONDS = 2.0
"""How long a second write of an object waits for the hub's version of the first; the hub refuses older versions."""


class ObjectWriter(Struct, frozen=True):
    """Publishes one change of a kind at a time."""

    channel: EventChannel
    locks: dict[DataType, asyncio.Lock] = field(default_factory=dict)

    async def create(self, store: ObjectStore, type_: EventType, obj: Object, *, is_followed: bool) -> Object:
        """Create an object; returns it as the hub sends it, or as it was sent where the kind is not followed."""
        await self.channel.publish(store.codec.encode(type_, obj, self.channel.cluster))
        stored = await _wait_for(store, ObjectKey.of(obj), lambda found: found is not None) if is_followed else None
        return obj if stored is None else stored.object

    async def change(
        self, store: ObjectStore, key: ObjectKey, type_: EventType, change: Callable[[Object], Object]
    ) -> StoredObject:
        """Change an object; a refusal when it is not there, or was changed or replaced meanwhile."""
        async with self.locks.setdefault(store.codec.data_type, asyncio.Lock()):
            stored = await self._find_settled(store, key)
            if stored is None:
                resource = store.codec.resource.group_resource
                raise make_refusal(404, "NotFound", f"{resource} {key.name!r} not found")
            present = stored.object
            changed = change(present)
            _require_same_version(present, changed, key)
            known = {**changed, "metadata": {**changed["metadata"], "resourceVersion": stored.version}}
            await self.channel.publish(store.codec.encode(type_, known, self.channel.cluster))
            latest = store.find(key)
            if latest is None or latest.revision != stored.revision:
                return latest or stored  # the hub's result was faster
            return store.write(stored, changed)

    async def _find_settled(self, store: ObjectStore, key: ObjectKey) -> StoredObject | None:
        if not store.codec.returns_writes:
            return store.find(key)
        return await _wait_for(store, key, lambda found: found is None or not found.is_written)


async def _wait_for(
    store: ObjectStore, key: ObjectKey, is_settled: Callable[[StoredObject | None], bool]
) -> StoredObject | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ECHO_SECONDS):
            while not is_settled(store.find(key)):
                await store.wait_changed()
    return store.find(key)


def _require_same_version(present: Object, changed: Object, key: ObjectKey) -> None:
    for name in ("uid", "resourceVersion"):
        wanted = changed["metadata"].get(name)
        if wanted and wanted != present["metadata"].get(name):
            message = f"{key} was changed or replaced meanwhile: read it again"
            raise make_refusal(409, "Conflict", message)


class RequestTarget(Struct, frozen=True):
    """The parts of a path; those that it does not have are empty."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    def __str__(self) -> str:
        resource = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{resource}/{self.subresource}" if self.subresource else resource


def parse_target(path: str) -> RequestTarget | None:
    """Read a path; None when it is not that of a resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = [*rest, "", "", ""]
    return None if any(more[:-2]) else RequestTarget(group, version, plural, namespace, name, subresource)


class ObjectFilter(Struct, frozen=True):
    """Which objects of a collection a request is about."""

    namespace: str
    name: str  # empty: any
    labels: LabelSelector

    @classmethod
    def read(cls, target: RequestTarget, labels: str, fields: str) -> ObjectFilter:
        """Read the selectors of a request; a refusal when they select by anything but name and labels."""
        try:
            names = parse_field_selector(fields)
            if any(each.path != "metadata.name" or each.negated for each in names):
                raise SelectorError("over gRPC, objects are selected by metadata.name and by labels alone")
            return cls(target.namespace, names[0].value if names else "", parse_label_selector(labels))
        except SelectorError as cause:
            raise make_refusal(400, "BadRequest", str(cause)) from cause

    def matches(self, obj: Object) -> bool:
        key = ObjectKey.of(obj)
        placed = self.namespace in ("", key.namespace) and self.name in ("", key.name)
        return placed and self.labels.matches(labels_of(obj))


_EXPIRED = orjson.dumps(
    {"kind": "Status", "code": 410, "reason": "Expired", "message": "the watch missed changes: list again"}
)


class StoreWatch(Struct, frozen=True, kw_only=True):
    """One watch of the objects in a store."""

    store: ObjectStore
    feed: EventFeed
    selected: ObjectFilter
    since: int | None  # None: the present objects come first
    seconds: float | None  # after which the watch ends; None: never

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines; raises why the events of the hub ended."""
        end = None if self.seconds is None else asyncio.get_running_loop().time() + self.seconds
        position = self.since
        if position is None:
            position = self.store.revision
            for stored in self.store:
                if self.selected.matches(stored.object):
                    yield _line("ADDED", stored.raw)
            yield _line("BOOKMARK", _bookmark(self.store.codec.resource, position))
        while True:
            changes = self.store.changes_since(position)
            if changes is None:
                yield _line("ERROR", _EXPIRED)
                return
            for change in changes:
                position = change.revision
                if self.selected.matches(orjson.loads(change.raw)):
                    yield _line(change.type, change.raw)
            self.feed.raise_failure()
            if position == self.store.revision and not await self._wait_changed(end):
                return

    async def _wait_changed(self, end: float | None) -> bool:
        try:
            async with asyncio.timeout_at(end):
                await self.store.wait_changed()
        except TimeoutError:
            return False
        return True


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
    is_read: bool = True  # the hub sends its objects
    lingers: bool = False  # read again and again, but never watched


def served_kinds() -> dict[tuple[str, str, str], ServedKind]:
    kinds = (
        ServedKind(codec=ObjectCodec(DataType.MANAGED_CLUSTER), writes=_CREATE | _UPDATE | _REPORT),
        ServedKind(codec=ObjectCodec(DataType.ADDON), writes=_REPORT),
        ServedKind(codec=ObjectCodec(DataType.CERTIFICATE_REQUEST), writes=_CREATE),
        ServedKind(
            codec=ObjectCodec(DataType.LEASE),
            lingers=True,
            writes=_UPDATE | {("PATCH", ""): (SubResource.SPEC, Action.UPDATE)},
        ),
        ServedKind(codec=ObjectCodec(DataType.EVENT), is_read=False, writes=_CREATE),
        ServedKind(codec=WorkCodec(), writes=_REPORT | {("PATCH", ""): (SubResource.STATUS, Action.UPDATE)}),
    )
    resources = [kind.codec.resource for kind in kinds]
    return {(each.group, each.version, each.plural): kind for each, kind in zip(resources, kinds, strict=True)}


class GrpcTransport:
    """Sends the requests of one agent over one gRPC connection.

    What the hub sends is kept, so that reads and watches need no requests. A read of one object asks the hub whether
    there is a newer version. What the protocol does not carry is refused as an API server would refuse it.
    """

    def __init__(self, channel: EventChannel, stores: ObjectStores) -> None:
        self._channel = channel
        self._stores = stores
        self._kinds = served_kinds()
        self._subscriptions: dict[DataType, ObjectSubscription] = {}
        self._writer = ObjectWriter(channel)
        self._in_flight = 0
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Answer one request; a refusal is an answer, too."""
        if self._closed:
            raise Unreachable("the connection to the hub is closed", maybe_processed=False)
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
        target = parse_target(request.path)
        kind = self._find_kind(target)
        if target is None or kind is None or not kind.is_read or not request.parameter("watch"):
            yield await self.send(request)
            return
        async with AsyncExitStack() as stack:
            try:
                response = await self._watch(kind, target, request, stack)
            except ApiStatusError as refused:
                response = refusal_response(refused)
            yield response

    async def _watch(
        self, kind: ServedKind, target: RequestTarget, request: Request, stack: AsyncExitStack
    ) -> Response:
        subscription, selected = self._subscription(kind), _filter(target, request)
        feed = await stack.enter_async_context(subscription.use())
        watch = StoreWatch(
            store=subscription.store,
            feed=feed,
            selected=selected,
            since=_revision(request, subscription),
            seconds=float(request.parameter("timeoutSeconds") or 0) or None,
        )
        return Response(200, stream=await stack.enter_async_context(aclosing(watch.lines())))

    async def close(self) -> None:
        """Refuse requests from now on; those under way end first."""
        self._closed = True
        await self._close_if_unused()

    async def _close_if_unused(self) -> None:
        if self._closed and self._in_flight == 0:
            for subscription in self._subscriptions.values():
                await subscription.stop()
            await self._channel.close()

    async def _dispatch(self, request: Request) -> Response:
        target = parse_target(request.path)
        if target is not None and _is_token_request(request, target):
            answer = await TokenRequester(self._channel).request(target.key, _body(request))
            return object_response(answer, 201)
        kind = self._find_kind(target)
        if target is None or kind is None:
            raise _not_carried(request, target)
        if request.method == "GET" and kind.is_read:
            return await (self._get(kind, target) if target.name else self._list(kind, target, request))
        return await self._write(kind, target, request)

    async def _get(self, kind: ServedKind, target: RequestTarget) -> Response:
        subscription = self._subscription(kind)
        await subscription.refresh()
        stored = subscription.store.find(target.key)
        if stored is None:
            raise make_refusal(404, "NotFound", f"{target} {str(target.key)!r} not found")
        return Response(200, (("Content-Type", "application/json"),), stored.raw)

    async def _list(self, kind: ServedKind, target: RequestTarget, request: Request) -> Response:
        subscription, selected = self._subscription(kind), _filter(target, request)
        await subscription.refresh()
        resource, store = kind.codec.resource, subscription.store
        found = [stored.object for stored in store]
        listed = {
            "apiVersion": resource.api_version,
            "kind": f"{resource.kind}List",
            "metadata": {"resourceVersion": str(store.revision)},
            "items": [obj for obj in found if selected.matches(obj)],
        }
        return object_response(listed)

    async def _write(self, kind: ServedKind, target: RequestTarget, request: Request) -> Response:
        carried = kind.writes.get((request.method, target.subresource))
        if carried is None:
            raise _not_carried(request, target)
        type_ = EventType(kind.codec.data_type, *carried)
        if request.method == "POST" and not target.name:
            subscription = self._subscription(kind)
            created = await self._writer.create(
                subscription.store, type_, _body(request), is_followed=subscription.is_open
            )
            return object_response(created, 201)
        if request.method == "PUT":
            return await self._change(kind, target, type_, lambda _: _body(request))
        if request.method == "PATCH" and request.header("Content-Type") == PatchType.MERGE:
            return await self._change(kind, target, type_, lambda stored: apply_merge_patch(stored, _body(request)))
        raise _not_carried(request, target)

    async def _change(
        self, kind: ServedKind, target: RequestTarget, type_: EventType, change: Callable[[Object], Object]
    ) -> Response:
        subscription = self._subscription(kind)
        async with subscription.use():
            stored = await self._writer.change(subscription.store, target.key, type_, change)
        return Response(200, (("Content-Type", "application/json"),), stored.raw)

    def _find_kind(self, target: RequestTarget | None) -> ServedKind | None:
        return None if target is None else self._kinds.get((target.group, target.version, target.plural))

    def _subscription(self, kind: ServedKind) -> ObjectSubscription:
        data_type = kind.codec.data_type
        found = self._subscriptions.get(data_type)
        if found is None:
            store = self._stores.of(kind.codec)
            found = self._subscriptions[data_type] = ObjectSubscription(self._channel, store, lingers=kind.lingers)
        return found


def _is_token_request(request: Request, target: RequestTarget) -> bool:
    account = (target.group, target.plural, target.subresource)
    return request.method == "POST" and account == ("", SERVICE_ACCOUNTS.plural, "token")


def _body(request: Request) -> Object:
    try:
        parsed = orjson.loads(request.body)
    except orjson.JSONDecodeError as cause:
        raise make_refusal(400, "BadRequest", "the body of the request is not JSON") from cause
    if not isinstance(parsed, dict):
        raise make_refusal(400, "BadRequest", "the body of the request is not a JSON object")
    return parsed


def _filter(target: RequestTarget, request: Request) -> ObjectFilter:
    return ObjectFilter.read(target, request.parameter("labelSelector"), request.parameter("fieldSelector"))


def _revision(request: Request, subscription: ObjectSubscription) -> int | None:
    """Return where a watch continues; a refusal when changes since then are not known."""
    text = request.parameter("resourceVersion")
    if request.parameter("sendInitialEvents") == "true" or text in ("", "0"):
        return None
    revision = int(text) if text.isascii() and text.isdecimal() else -1
    if subscription.store.changes_since(revision) is None:
        raise make_refusal(410, "Expired", "the changes since that resourceVersion are not known: list again")
    return revision


def _not_carried(request: Request, target: RequestTarget | None) -> ApiStatusError:
    what = str(target) if target is not None else request.path
    return make_refusal(405, "MethodNotAllowed", f"the gRPC server of a hub does not serve {request.method} of {what}")


def object_response(obj: Object, status: int = 200) -> Response:
    return Response(status, (("Content-Type", "application/json"),), orjson.dumps(obj))


def refusal_response(refused: ApiStatusError) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": refused.code}
    status |= {"message": str(refused), "reason": refused.reason, **refused.status}
    return object_response(status, refused.code)
