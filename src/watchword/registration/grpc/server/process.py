"""The gRPC server put together: what `watchword grpc-server` runs."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import structlog
from msgspec import Struct, field

from watchword.http.server import delegating_context
from watchword.kube.client import Client
from watchword.kube.watch import WatchOptions
from watchword.registration.grpc.cloud_events import EventCodec
from watchword.registration.grpc.errors import TlsFilesUnusable
from watchword.registration.grpc.server.authorization import Authenticator, Authorizer
from watchword.registration.grpc.server.handlers import EventService, GrpcServerMetrics
from watchword.registration.grpc.server.hub_objects import EventStreams, HubObjects
from watchword.registration.grpc.server.limits import GrpcLimits, RequestRefused
from watchword.registration.grpc.server.listener import ALPN, GrpcListener, TlsFiles, connection_table
from watchword.registration.grpc.server.publishing import Publisher
from watchword.runtime.api_server_connection import check_cache_readiness
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_loop import run_until_stopped
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.manager import first_error
from watchword.runtime.metrics import Metrics
from watchword.runtime.write_transports import WriteThroughTransport

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
    writer = client.over(WriteThroughTransport(client.transport, cache.observe_write))
    authorizer = Authorizer(client, cache)
    objects = HubObjects(cache, EventStreams(), authorizer, clock)
    objects.follow()
    authenticator = Authenticator(client, clock, options.tls.roots)
    listener = make_listener(options, authenticator, Publisher(writer, objects, authorizer))
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
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience.total_seconds()):
            while not is_loaded(tls):  # noqa: ASYNC110 - files announce nothing
                await asyncio.sleep(1)
    tls.load()


def is_loaded(tls: TlsFiles) -> bool:
    try:
        tls.load()
    except TlsFilesUnusable:
        return False
    return True


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
    objects, counts = publisher.objects, GrpcServerMetrics(options.metrics.registry)
    table = connection_table(options.limits)
    service = EventService(
        authenticator,
        publisher.authorizer,
        objects,
        publisher,
        counts,
        options.limits,
        table.authenticate,
        options.limits.user_rates(),
    )
    listener = GrpcListener([service], EventCodec(), options.limits, table)
    counts.watch(streams=lambda: len(objects.streams), connections=lambda: len(table))
    return listener


async def drain(listener: GrpcListener, streams: EventStreams) -> None:
    """Accept nothing new, end subscriptions so that agents go to another replica, let current writes finish."""
    listener.stop_listening()
    streams.end_all(RequestRefused(503, "this gRPC server is stopping: connect again"))
    try:
        async with asyncio.timeout(listener.limits.drain_seconds):
            await listener.idle()
    except TimeoutError:
        pass
    listener.close()
    listener.abort_connections()
    await listener.wait_closed()
