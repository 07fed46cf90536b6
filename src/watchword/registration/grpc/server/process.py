"""The gRPC server put together: its two methods, of which every call is authenticated, limited and counted."""

import asyncio
import contextlib
import logging
import struct
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import structlog
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.protocol import Connection
from grpclib.server import Stream
from msgspec import Struct, field

from watchword.api.rate_limit import TokenBuckets
from watchword.http.limits import ConnectionTable, choose_address_limit, choose_connection_limit, descriptor_limit
from watchword.http.server import delegating_context
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, KubeError, Unauthorized, error_from_status
from watchword.kube.watch import WatchOptions
from watchword.registration.grpc import cloud_events, errors
from watchword.registration.grpc.cloud_events import EventCodec
from watchword.registration.grpc.server import authorization
from watchword.registration.grpc.server.authorization import Authenticator, Authorizer
from watchword.registration.grpc.server.hub_objects import EventStream, EventStreams, HubObjects, heartbeat
from watchword.registration.grpc.server.listener import ALPN, GrpcLimits, GrpcListener, TlsFiles, abort
from watchword.registration.grpc.server.publishing import Publisher, require_cluster_name
from watchword.runtime.api_server_connection import check_cache_readiness
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import run_until_stopped
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.manager import first_error
from watchword.runtime.metrics import Metrics
from watchword.runtime.prometheus import CollectorRegistry
from watchword.runtime.write_transports import WriteThroughTransport

_CODES = {
    400: (Status.INVALID_ARGUMENT, "BadRequest"),
    401: (Status.UNAUTHENTICATED, "Unauthorized"),
    403: (Status.PERMISSION_DENIED, "Forbidden"),
    404: (Status.FAILED_PRECONDITION, "NotFound"),
    413: (Status.RESOURCE_EXHAUSTED, "RequestEntityTooLarge"),
    429: (Status.RESOURCE_EXHAUSTED, "TooManyRequests"),
    500: (Status.INTERNAL, "InternalError"),
    503: (Status.UNAVAILABLE, "ServiceUnavailable"),
}


def grpc_error(error: Exception) -> GRPCError:
    """Return the gRPC error with which a request ends; an unexpected error is logged, and reveals nothing."""
    if isinstance(error, GRPCError):
        return error
    if isinstance(error, errors.RequestRefused):
        return _refusal(error.code, str(error))
    if isinstance(error, errors.GrpcDriverError):
        return _refusal(400, str(error))
    if isinstance(error, ApiStatusError) and not isinstance(error, Unauthorized):
        return GRPCError(Status.FAILED_PRECONDITION, errors.encode_status(error))
    if isinstance(error, KubeError):  # the server's own problem, not the agent's
        return _refusal(503, "the gRPC server cannot use the hub's API server now: try again")
    log: Any = structlog.get_logger("watchword.grpc-server")
    log.error("request failed", error=type(error).__name__, exc_info=error)
    return _refusal(500, "the gRPC server failed: its log says why")


def _refusal(code: int, message: str) -> GRPCError:
    status, reason = _CODES[code]
    return GRPCError(status, errors.encode_status(error_from_status(code, {"reason": reason, "message": message})))


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
                    raise errors.RequestRefused(400, "the message is compressed: send it as it is")
                if length > self.limits.message_bytes:
                    raise errors.RequestRefused(413, f"the message is larger than {self.limits.message_bytes} bytes")
                return decode(await self._read(length))
        except TimeoutError as cause:
            raise errors.RequestRefused(400, "the message did not arrive in time: send it faster") from cause

    async def _read(self, size: int) -> bytes:
        try:
            data = await self.stream._stream.recv_data(size)  # noqa: SLF001 - as recv_message does, with limits
        except AssertionError as cause:
            raise errors.MalformedEvent("the message is shorter than it says") from cause
        if len(data) != size:
            raise errors.MalformedEvent("the call contains no message")
        return data

    async def send(self, message: Any) -> None:
        """Send a message; a client that has stopped reading loses its connection."""
        try:
            async with asyncio.timeout(self.limits.send_seconds):
                await self.stream.send_message(message)
        except TimeoutError as cause:
            abort(self.connection)
            raise errors.RequestRefused(
                429, "the client reads too slowly: subscribe again and ask for a resync"
            ) from cause


class GrpcServerMetrics:
    """Counts requests and events; shows how many streams and connections are open."""

    def __init__(
        self, registry: CollectorRegistry, *, streams: Callable[[], float], connections: Callable[[], float]
    ) -> None:
        requests = "Requests of agents, by method, data type and the status that they ended with"
        self.requests = registry.counter("watchword_grpc_requests", requests, "method", "data_type", "status")
        self.sent = registry.counter("watchword_grpc_events_sent", "Events sent to agents", "data_type")
        registry.gauge("watchword_grpc_streams", "Open subscriptions").labels().set_function(streams)
        registry.gauge("watchword_grpc_connections", "Open connections").labels().set_function(connections)


_WATCH = cloud_events.Action.WATCH


class EventService(Struct, frozen=True):
    """Serves Publish and Subscribe."""

    authenticator: authorization.Authenticator
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
        async with self._counted("Publish") as noted:
            caller = await self._authenticate(call)
            event = await call.receive(cloud_events.decode_publish_request)
            kind = cloud_events.EventType.parse(event.type)
            noted.update(data_type=kind.data_type, action=kind.action, user=caller.user.username)
            await self.publisher.publish(event, caller, call.connection)
            await call.send(cloud_events.Empty())

    async def _subscribe(self, stream: Stream[Any, Any]) -> None:
        call, objects = Call(stream, self.limits), self.publisher.objects
        async with self._counted("Subscribe") as noted:
            caller = await self._authenticate(call)
            wanted = await call.receive(cloud_events.decode_subscription)
            data_type = cloud_events.parse_data_type(wanted.data_type)
            cluster = require_cluster_name(wanted.cluster)
            noted.update(data_type=data_type, cluster=cluster, user=caller.user.username)
            await self._authorize(caller, cluster, data_type)
            await objects.ensure_followed(data_type)
            events = EventStream(cluster, data_type, caller, call.connection)
            with objects.streams.registered(events):
                await stream.send_initial_metadata(
                    metadata={cloud_events.SUBSCRIPTION_ID: str(uuid.uuid4()), cloud_events.RESYNC_END: "heartbeat"}
                )
                await self._send_events(call, events)

    async def _authenticate(self, call: Call) -> authorization.Caller:
        caller = await self.authenticator.authenticate(call.credential)
        if self.rates.take(caller.user.username, asyncio.get_running_loop().time()):
            raise errors.RequestRefused(429, "this user sends too many requests: send fewer, or wait some seconds")
        self.authenticated(call.connection, caller.user.username)
        return caller

    async def _authorize(self, caller: authorization.Caller, cluster: str, data_type: cloud_events.DataType) -> None:
        access = authorization.choose_access(
            cloud_events.EventType(data_type, cloud_events.SubResource.SPEC, _WATCH), cluster
        )
        await self.publisher.objects.authorizer.authorize(caller, cluster, access)

    async def _send_events(self, call: Call, events: EventStream) -> None:
        """Send changes and heartbeats until the stream ends; review the caller's rights from time to time."""
        loop = asyncio.get_running_loop()
        next_heartbeat = loop.time() + self.limits.heartbeat_seconds
        next_review = loop.time() + authorization.review_interval(events.caller).total_seconds()
        while True:
            await events.wait(next_heartbeat - loop.time())
            if loop.time() >= next_review:
                caller = await self.authenticator.authenticate(call.credential)
                await self._authorize(caller, events.cluster, events.data_type)
                next_review = loop.time() + authorization.review_interval(events.caller).total_seconds()
            if loop.time() >= next_heartbeat:
                expires = events.caller.expires_at
                if expires is not None and self.authenticator.clock.now() > expires:
                    raise errors.RequestRefused(401, "the client certificate has expired during the call")
                await call.send(heartbeat())
                next_heartbeat = loop.time() + self.limits.heartbeat_seconds
            change = events.take()
            event = None if change is None else self.publisher.objects.render(events, *change)
            if event is not None:
                await call.send(event)
                self.metrics.sent.labels(events.data_type).inc()

    @asynccontextmanager
    async def _counted(self, method: str) -> AsyncIterator[dict[str, str]]:
        """Count and log how a call ends, with what it notes; raise only what the library turns into a status."""
        noted: dict[str, str] = {}
        status = Status.OK
        try:
            yield noted
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
            self.metrics.requests.labels(method, noted.get("data_type", "unknown"), status.name).inc()


STALE_AFTER = timedelta(minutes=10)
FILES_PATIENCE = timedelta(seconds=30)


class GrpcServerOptions(Struct, frozen=True, kw_only=True):
    """Where the server listens and what it shows."""

    serve: tuple[str, int]
    tls: TlsFiles
    health: tuple[str, int] | None = None
    limits: GrpcLimits = field(default_factory=GrpcLimits)
    follow: WatchOptions | None = None
    metrics: Metrics = field(default_factory=Metrics)


async def run_grpc_server(
    client: Client,
    options: GrpcServerOptions,
    *,
    clock: Clock,
    stop: asyncio.Event,
    started: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve agents until asked to stop, then drain; `started` is told the port.

    Raises `TlsFilesUnusable`, or the error with which following the hub's objects ended.
    """
    if not await run_until_stopped(stop, load_files(options.tls)):
        return
    logging.getLogger("grpclib").setLevel(logging.CRITICAL)  # the service logs how calls end
    cache = Cache.of(client, options.follow)
    relayed = client.without_retries()  # agents retry: both together would multiply while the API server is away
    writer = relayed.over(WriteThroughTransport(client.transport, cache.observe_write))
    objects = HubObjects(cache, EventStreams(), Authorizer(relayed, cache), clock)
    objects.follow()
    authenticator = Authenticator(relayed, clock, options.tls.roots)
    listener = make_listener(options, authenticator, Publisher(writer, objects))
    try:
        async with AsyncExitStack() as stack:
            if options.health is not None:
                health = health_endpoints(options, cache, stop)
                await stack.enter_async_context(serve_health(health, *options.health))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            following = group.create_task(cache.run(), name="cache")
            stack.callback(following.cancel)
            if await run_until_stopped(stop, cache.sync()):
                await serve(listener, objects.streams, options, stop, started)
    except BaseExceptionGroup as failed:
        raise first_error(failed) from failed


async def load_files(tls: TlsFiles, patience: timedelta = FILES_PATIENCE) -> None:
    """Read the files; on a new hub they appear some seconds after the server. Raises `TlsFilesUnusable` in the end."""
    for _ in range(int(patience.total_seconds())):
        try:
            return tls.load()
        except errors.TlsFilesUnusable:
            await asyncio.sleep(1)
    return tls.load()


async def serve(
    listener: GrpcListener,
    streams: EventStreams,
    options: GrpcServerOptions,
    stop: asyncio.Event,
    started: Callable[[int], None],
) -> None:
    """Listen until asked to stop, then drain."""
    log: Any = structlog.get_logger("watchword.grpc-server")
    try:
        port = await listener.listen(*options.serve, delegating_context(options.tls.context, ALPN))
        log.info("serving", host=options.serve[0], port=port)
        started(port)
        await stop.wait()
        log.info("stopping")
    finally:
        await drain(listener, streams)


def health_endpoints(options: GrpcServerOptions, cache: Cache, stop: asyncio.Event) -> HealthEndpoints:
    """Return the endpoints; a server that stops is not ready, so that no new agent is sent to it."""
    health = HealthEndpoints(options.metrics.registry)
    health.readiness["cache"] = lambda: check_cache_readiness(cache, stale_after=STALE_AFTER)
    health.readiness["serving"] = lambda: "the server is stopping" if stop.is_set() else ""
    return health


def make_listener(options: GrpcServerOptions, authenticator: Authenticator, publisher: Publisher) -> GrpcListener:
    limits, streams = options.limits, publisher.objects.streams
    most = choose_connection_limit(limits.connections, descriptor_limit())
    table: ConnectionTable[Connection] = ConnectionTable(most, choose_address_limit(most))
    counts = GrpcServerMetrics(options.metrics.registry, streams=streams.__len__, connections=table.__len__)
    service = EventService(authenticator, publisher, counts, limits, table.authenticate, limits.user_rates())
    return GrpcListener([service], EventCodec(), limits, table)


async def drain(listener: GrpcListener, streams: EventStreams) -> None:
    """Accept nothing new, end subscriptions so that agents go to another replica, let current writes finish."""
    streams.end_all(errors.RequestRefused(503, "this gRPC server is stopping: connect again"))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(listener.limits.drain_seconds):
            await listener.drain()
    listener.close()
    for connection in listener.table.connections():
        abort(connection)
    await listener.wait_closed()
