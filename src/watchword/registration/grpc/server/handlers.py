"""The two methods of the service: every call is authenticated, limited, authorized, and ends with a Status."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import StreamTerminatedError
from grpclib.server import Stream

from watchword._structlog import structlog
from watchword.registration.grpc.cloud_events import (
    CloudEvent,
    Subscription,
    decode_publish_request,
    decode_subscription,
)
from watchword.registration.grpc.event_types import Action, DataType, EventType, SubResource, parse_data_type
from watchword.registration.grpc.server.authentication import Authenticator, Caller, review_interval
from watchword.registration.grpc.server.authorization import Authorizer, choose_access
from watchword.registration.grpc.server.calls import Call
from watchword.registration.grpc.server.event_streams import EventStream
from watchword.registration.grpc.server.hub_objects import HubObjects
from watchword.registration.grpc.server.limits import GrpcLimits, RequestRates
from watchword.registration.grpc.server.metrics import GrpcServerMetrics
from watchword.registration.grpc.server.object_events import heartbeat
from watchword.registration.grpc.server.payloads import require_cluster_name
from watchword.registration.grpc.server.publishing import Publisher
from watchword.registration.grpc.server.refusals import RequestRefused, grpc_error
from watchword.registration.grpc.service import PUBLISH, RESYNC_END, SUBSCRIBE, SUBSCRIPTION_ID, Empty, PublishRequest

_WATCH = Action.WATCH


@dataclass(frozen=True)
class EventService:
    """Serves Publish and Subscribe."""

    authenticator: Authenticator
    authorizer: Authorizer
    objects: HubObjects
    publisher: Publisher
    metrics: GrpcServerMetrics
    limits: GrpcLimits
    authenticated: Callable[[Any, str], None]  # is told which connection belongs to which user
    rates: RequestRates = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", RequestRates(self.limits))

    def __mapping__(self) -> dict[str, Handler]:
        """Return the methods, as grpclib wants them."""
        return {
            PUBLISH: Handler(self._publish, Cardinality.UNARY_UNARY, PublishRequest, Empty),
            SUBSCRIBE: Handler(self._subscribe, Cardinality.UNARY_STREAM, Subscription, CloudEvent),
        }

    async def _publish(self, stream: Stream[Any, Any]) -> None:
        call = Call(stream, self.limits)

        async def work(noted: dict[str, str]) -> None:
            caller = await self._authenticate(call)
            event = await call.receive(decode_publish_request)
            kind = EventType.parse(event.type)
            noted.update(data_type=kind.data_type, action=kind.action, user=caller.user.username)
            await self.publisher.publish(event, caller, call.connection)
            await call.send(Empty())

        await self._ended("Publish", work)

    async def _subscribe(self, stream: Stream[Any, Any]) -> None:
        call = Call(stream, self.limits)

        async def work(noted: dict[str, str]) -> None:
            caller = await self._authenticate(call)
            wanted = await call.receive(decode_subscription)
            data_type = parse_data_type(wanted.data_type)
            cluster = require_cluster_name(wanted.cluster)
            noted.update(data_type=data_type, cluster=cluster, user=caller.user.username)
            await self._authorize(caller, cluster, data_type)
            await self.objects.ensure_followed(data_type)
            events = EventStream(cluster, data_type, caller, call.connection)
            with self.objects.streams.registered(events):
                await stream.send_initial_metadata(
                    metadata={SUBSCRIPTION_ID: str(uuid.uuid4()), RESYNC_END: "heartbeat"}
                )
                await self._send_events(call, events)

        await self._ended("Subscribe", work)

    async def _authenticate(self, call: Call) -> Caller:
        caller = await self.authenticator.authenticate(call.credential)
        self.rates.take(caller.user.username)
        self.authenticated(call.connection, caller.user.username)
        return caller

    async def _authorize(self, caller: Caller, cluster: str, data_type: DataType) -> None:
        access = choose_access(EventType(data_type, SubResource.SPEC, _WATCH), cluster)
        await self.authorizer.authorize(caller, cluster, access)

    async def _send_events(self, call: Call, events: EventStream) -> None:
        """Send changes and heartbeats until the stream ends; review the caller's rights from time to time."""
        loop = asyncio.get_running_loop()
        next_heartbeat = loop.time() + self.limits.heartbeat_seconds
        next_review = loop.time() + review_interval(events.caller).total_seconds()
        while True:
            await events.wait(next_heartbeat - loop.time())
            if loop.time() >= next_review:
                await self._review(call, events)
                next_review = loop.time() + review_interval(events.caller).total_seconds()
            if loop.time() >= next_heartbeat:
                self._require_valid(events.caller)
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

    def _require_valid(self, caller: Caller) -> None:
        if caller.expires_at is not None and self.authenticator.clock.now() > caller.expires_at:
            raise RequestRefused(401, "the client certificate has expired during the call")

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
