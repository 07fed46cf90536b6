"""The two methods of the service: every call is authenticated, limited, authorized, counted, and ends with a Status."""

import asyncio
import struct
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import StreamTerminatedError
from grpclib.protocol import Connection
from grpclib.server import Stream
from msgspec import Struct

from watchword.api.rate_limit import TokenBuckets
from watchword.registration.grpc import cloud_events
from watchword.registration.grpc.errors import MalformedEvent
from watchword.registration.grpc.server import authorization
from watchword.registration.grpc.server.hub_objects import EventStream, HubObjects, heartbeat
from watchword.registration.grpc.server.limits import GrpcLimits, RequestRefused, grpc_error
from watchword.registration.grpc.server.listener import abort
from watchword.registration.grpc.server.publishing import Publisher, require_cluster_name
from watchword.runtime.prometheus import CollectorRegistry, Counter, Gauge

T = TypeVar("T")
_PREFIX = struct.Struct(">?I")  # whether the message is compressed, and its length


class Call(Struct, frozen=True):
    """One call of a method."""

    stream: Stream[Any, Any]
    limits: GrpcLimits

    @property
    def connection(self) -> Connection:
        return self.stream._stream.connection  # noqa: SLF001 - the library shows only its peer

    @property
    def credential(self) -> authorization.CallerCredential:
        header = self.stream.metadata.get("authorization", "") if self.stream.metadata is not None else ""
        secure = self.stream._stream._transport.get_extra_info("ssl_object")  # noqa: SLF001 - same
        certificate = secure.getpeercert(binary_form=True) if secure is not None else None
        return authorization.CallerCredential(header if isinstance(header, str) else "", certificate or b"")

    async def receive(self, decode: Callable[[bytes], T]) -> T:
        """Return the only message of the call; the library would read one of any size, and wait for it forever."""
        try:
            async with asyncio.timeout(self.limits.receive_seconds):
                compressed, length = _PREFIX.unpack(await self._read(_PREFIX.size))
                if compressed:
                    raise RequestRefused(400, "the message is compressed: send it as it is")
                if length > self.limits.message_bytes:
                    raise RequestRefused(413, f"the message is larger than {self.limits.message_bytes} bytes")
                return decode(await self._read(length))
        except TimeoutError as cause:
            raise RequestRefused(400, "the message did not arrive in time: send it faster") from cause

    async def _read(self, size: int) -> bytes:
        try:
            data = await self.stream._stream.recv_data(size)  # noqa: SLF001 - as recv_message does, with limits
        except AssertionError as cause:
            raise MalformedEvent("the message is shorter than it says") from cause
        if len(data) != size:
            raise MalformedEvent("the call contains no message")
        return data

    async def send(self, message: Any) -> None:
        """Send a message; a client that has stopped reading loses its connection."""
        try:
            async with asyncio.timeout(self.limits.send_seconds):
                await self.stream.send_message(message)
        except TimeoutError as cause:
            abort(self.connection)
            raise RequestRefused(429, "the client reads too slowly: subscribe again and ask for a resync") from cause


UNKNOWN = "unknown"


class GrpcServerMetrics:
    """The metrics of one gRPC server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "watchword_grpc_requests",
            "Requests of agents, by method, data type and the status that they ended with",
            ["method", "data_type", "status"],
            registry=registry,
        )
        self._sent = Counter("watchword_grpc_events_sent", "Events sent to agents", ["data_type"], registry=registry)
        self._streams = Gauge("watchword_grpc_streams", "Open subscriptions", registry=registry)
        self._connections = Gauge("watchword_grpc_connections", "Open connections", registry=registry)

    def watch(self, *, streams: Callable[[], float], connections: Callable[[], float]) -> None:
        self._streams.set_function(streams)
        self._connections.set_function(connections)

    def ended(self, method: str, data_type: str, status: Status) -> None:
        self._requests.labels(method, data_type or UNKNOWN, status.name).inc()

    def sent(self, data_type: str) -> None:
        self._sent.labels(data_type).inc()


_WATCH = cloud_events.Action.WATCH


class EventService(Struct, frozen=True):
    """Serves Publish and Subscribe."""

    authenticator: authorization.Authenticator
    authorizer: authorization.Authorizer
    objects: HubObjects
    publisher: Publisher
    metrics: GrpcServerMetrics
    limits: GrpcLimits
    authenticated: Callable[[Any, str], None]  # is told which connection belongs to which user
    rates: TokenBuckets  # by user

    def __mapping__(self) -> dict[str, Handler]:
        return {
            cloud_events.PUBLISH: Handler(
                self._publish, Cardinality.UNARY_UNARY, cloud_events.PublishRequest, cloud_events.Empty
            ),
            cloud_events.SUBSCRIBE: Handler(
                self._subscribe, Cardinality.UNARY_STREAM, cloud_events.Subscription, cloud_events.CloudEvent
            ),
        }

    async def _publish(self, stream: Stream[Any, Any]) -> None:
        call = Call(stream, self.limits)

        async def work(noted: dict[str, str]) -> None:
            caller = await self._authenticate(call)
            event = await call.receive(cloud_events.decode_publish_request)
            kind = cloud_events.EventType.parse(event.type)
            noted.update(data_type=kind.data_type, action=kind.action, user=caller.user.username)
            await self.publisher.publish(event, caller, call.connection)
            await call.send(cloud_events.Empty())

        await self._ended("Publish", work)

    async def _subscribe(self, stream: Stream[Any, Any]) -> None:
        call = Call(stream, self.limits)

        async def work(noted: dict[str, str]) -> None:
            caller = await self._authenticate(call)
            wanted = await call.receive(cloud_events.decode_subscription)
            data_type = cloud_events.parse_data_type(wanted.data_type)
            cluster = require_cluster_name(wanted.cluster)
            noted.update(data_type=data_type, cluster=cluster, user=caller.user.username)
            await self._authorize(caller, cluster, data_type)
            await self.objects.ensure_followed(data_type)
            events = EventStream(cluster, data_type, caller, call.connection)
            with self.objects.streams.registered(events):
                await stream.send_initial_metadata(
                    metadata={cloud_events.SUBSCRIPTION_ID: str(uuid.uuid4()), cloud_events.RESYNC_END: "heartbeat"}
                )
                await self._send_events(call, events)

        await self._ended("Subscribe", work)

    async def _authenticate(self, call: Call) -> authorization.Caller:
        caller = await self.authenticator.authenticate(call.credential)
        if self.rates.take(caller.user.username, asyncio.get_running_loop().time()):
            raise RequestRefused(429, "this user sends too many requests: send fewer, or wait some seconds")
        self.authenticated(call.connection, caller.user.username)
        return caller

    async def _authorize(self, caller: authorization.Caller, cluster: str, data_type: cloud_events.DataType) -> None:
        access = authorization.choose_access(
            cloud_events.EventType(data_type, cloud_events.SubResource.SPEC, _WATCH), cluster
        )
        await self.authorizer.authorize(caller, cluster, access)

    async def _send_events(self, call: Call, events: EventStream) -> None:
        """Send changes and heartbeats until the stream ends; review the caller's rights from time to time."""
        loop = asyncio.get_running_loop()
        next_heartbeat = loop.time() + self.limits.heartbeat_seconds
        next_review = loop.time() + authorization.review_interval(events.caller).total_seconds()
        while True:
            await events.wait(next_heartbeat - loop.time())
            if loop.time() >= next_review:
                await self._review(call, events)
                next_review = loop.time() + authorization.review_interval(events.caller).total_seconds()
            if loop.time() >= next_heartbeat:
                expires = events.caller.expires_at
                if expires is not None and self.authenticator.clock.now() > expires:
                    raise RequestRefused(401, "the client certificate has expired during the call")
                await call.send(heartbeat())
                next_heartbeat = loop.time() + self.limits.heartbeat_seconds
            change = events.take()
            event = None if change is None else self.objects.render(events, *change)
            if event is not None:
                await call.send(event)
                self.metrics.sent(events.data_type)

    async def _review(self, call: Call, events: EventStream) -> None:
        caller = await self.authenticator.authenticate(call.credential)
        await self._authorize(caller, events.cluster, events.data_type)

    async def _ended(self, method: str, work: Callable[[dict[str, str]], Awaitable[None]]) -> None:
        """Run a call; count and log how it ended, and raise only what the library turns into a status."""
        noted: dict[str, str] = {}
        status = Status.OK
        try:
            await work(noted)
        except (StreamTerminatedError, asyncio.CancelledError):
            status = Status.CANCELLED
            raise
        except Exception as error:
            refusal = grpc_error(error)
            status = refusal.status
            log: Any = structlog.get_logger("watchword.grpc-server")
            log.info("call refused", method=method, status=status.name, reason=str(error)[:500], **noted)
            raise refusal from error
        finally:
            self.metrics.ended(method, noted.get("data_type", ""), status)
