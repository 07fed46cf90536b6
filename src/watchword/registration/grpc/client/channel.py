"""One gRPC connection to a hub as one identity, and what a failed call means."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

from grpclib.client import Channel, Handler, Stream, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.protocol import H2Protocol
from msgspec import Struct

from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.kube import errors
from watchword.kube.endpoint import NotConnected
from watchword.kube.https_transport import to_kube_error as to_connection_error
from watchword.kube.tls import ClientCertificate, Trust, make_context
from watchword.registration.grpc import cloud_events
from watchword.registration.grpc.config import GrpcEndpoint
from watchword.registration.grpc.errors import MalformedEvent, MalformedStatus, decode_status

T = TypeVar("T")

_REFUSALS: dict[Status, tuple[int, str]] = {
    Status.INVALID_ARGUMENT: (400, "BadRequest"),
    Status.UNAUTHENTICATED: (401, "Unauthorized"),
    Status.PERMISSION_DENIED: (403, "Forbidden"),
    Status.NOT_FOUND: (404, "NotFound"),
    Status.UNIMPLEMENTED: (405, "MethodNotAllowed"),
    Status.ALREADY_EXISTS: (409, "AlreadyExists"),
    Status.ABORTED: (409, "Conflict"),
    Status.RESOURCE_EXHAUSTED: (429, "TooManyRequests"),
    Status.FAILED_PRECONDITION: (500, "InternalError"),
    Status.INTERNAL: (500, "InternalError"),
    Status.UNKNOWN: (500, "InternalError"),
}
_LONGEST_TEXT = 1000


def to_kube_error(cause: BaseException, server: str, *, with_certificate: bool) -> Exception:
    """Return our error for a failed call; the message names the server and the reason."""
    if isinstance(cause, errors.KubeError):
        return cause
    if isinstance(cause, GRPCError):
        return _to_refusal(cause, server)
    if isinstance(cause, MalformedEvent):
        return errors.MalformedResponse(f"{server} sent an event that cannot be read: {cause}")
    if isinstance(cause, OSError) and not isinstance(cause, TimeoutError):
        unconnected = NotConnected()
        unconnected.__cause__ = cause
        return to_connection_error(unconnected, server, with_certificate=with_certificate)
    return to_connection_error(cause, server, with_certificate=with_certificate)


def _to_refusal(error: GRPCError, server: str) -> errors.KubeError:
    try:
        return decode_status(str(error.message or ""))
    except MalformedStatus:  # from OCM's server, or from a proxy in front of one
        text = str(error.message or "")[:_LONGEST_TEXT]
    known = _REFUSALS.get(error.status)
    if known is None:
        return errors.Unreachable(f"{server} cannot answer: {text or error.status.name}")
    return make_refusal(*known, text or f"{server} answered {error.status.name}")


def make_refusal(code: int, reason: str, message: str) -> errors.ApiStatusError:
    return errors.error_from_status(code, {"code": code, "reason": reason, "message": message})


CONNECT_SECONDS = 10.0
PUBLISH_SECONDS = 20.0
_ERRORS = (GRPCError, StreamTerminatedError, ProtocolError, MalformedEvent, OSError, TimeoutError)

EventStream: TypeAlias = Stream[cloud_events.Subscription, cloud_events.CloudEvent]


class GrpcCredential(HiddenFields, frozen=True):
    """What the server knows a client by: a token, or a certificate."""

    hidden = ("certificate",)

    token: Sensitive[str] | None = None
    certificate: ClientCertificate | None = None

    @property
    def metadata(self) -> dict[str, str]:
        return {} if self.token is None else {"authorization": f"Bearer {self.token.reveal()}"}


class EventSubscription(Struct, frozen=True):
    """An open stream of events."""

    events: AsyncGenerator[cloud_events.CloudEvent, None]
    marks_resync: bool  # whether the answer to a resync ends with a heartbeat that has the identifier of the request


def make_tls_context(endpoint: GrpcEndpoint, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Return the context of a connection; `ConfigError` when authorities or certificate are not usable."""
    context = make_context(Trust(endpoint.ca_data), certificate)
    context.set_alpn_protocols(["h2"])
    return context


async def run_apart(call: Coroutine[Any, Any, T]) -> T:
    """Run a call in a task of its own, and cancel it with the caller.

    grpclib wakes a task whose connection is lost by cancelling it, and then raises the loss instead: a cancellation
    of the caller in the same moment would be lost, and a process that stops would wait for it without end.
    """
    task = asyncio.create_task(call)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    return task.result()


class LossRecordingProtocol(H2Protocol):
    """Keeps why the connection was lost, which the library drops: a TLS alert, for one."""

    loss: BaseException | None = None

    def connection_lost(self, exc: BaseException | None) -> None:
        self.loss = exc
        super().connection_lost(exc)


class LossRecordingChannel(Channel):
    """A channel whose `loss` says why its last connection was lost."""

    @property
    def loss(self) -> BaseException | None:
        return self._protocol.loss if isinstance(self._protocol, LossRecordingProtocol) else None

    def _protocol_factory(self) -> H2Protocol:
        return LossRecordingProtocol(Handler(), self._config, self._h2_config)


class EventChannel:
    """Sends and receives events. Connects when it is first used, and again when the connection was lost.

    Raises the errors of `kube.errors`: a refusal is the one that an API server would have answered.
    """

    def __init__(self, endpoint: GrpcEndpoint, credential: GrpcCredential, *, cluster: str) -> None:
        host, port = endpoint.address
        self.cluster = cluster
        self._endpoint = endpoint
        self._metadata = credential.metadata
        self._has_certificate = credential.certificate is not None
        self._channel = LossRecordingChannel(
            host, port, ssl=make_tls_context(endpoint, credential.certificate), codec=cloud_events.EventCodec()
        )
        self._publish: UnaryUnaryMethod[cloud_events.CloudEvent, cloud_events.Empty] = UnaryUnaryMethod(
            self._channel,
            cloud_events.PUBLISH,
            cloud_events.PublishRequest,  # type: ignore[arg-type]  # what the codec writes a CloudEvent as
            cloud_events.Empty,
        )
        self._subscribe = UnaryStreamMethod(
            self._channel, cloud_events.SUBSCRIBE, cloud_events.Subscription, cloud_events.CloudEvent
        )

    async def publish(self, event: cloud_events.CloudEvent) -> None:
        """Send one event; returns once the server has processed it."""
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                await run_apart(self._publish(event, metadata=self._metadata))
        except _ERRORS as cause:
            raise self._explain(cause) from cause

    @asynccontextmanager
    async def subscribe(self, data_type: cloud_events.DataType) -> AsyncIterator[EventSubscription]:
        """Open a stream of the events of one kind; inside the context the server has registered the subscription.

        Its events end with `Stalled` when a server that sends heartbeats falls silent, and with `Unreachable` else.
        """
        try:
            async with self._subscribe.open(metadata=self._metadata) as stream:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await stream.send_message(
                        cloud_events.Subscription(cluster=self.cluster, data_type=data_type), end=True
                    )
                    await stream.recv_initial_metadata()
                events = self._events(stream)
                try:
                    yield EventSubscription(events, cloud_events.RESYNC_END in (stream.initial_metadata or ()))
                finally:
                    await events.aclose()
                await stream.cancel()
        except _ERRORS as cause:
            raise self._explain(cause) from cause

    async def _events(self, stream: EventStream) -> AsyncGenerator[cloud_events.CloudEvent, None]:
        patience: float | None = None
        while True:
            event = await self._next(stream, patience)
            if event.is_heartbeat:  # a server may be configured to send none
                patience = self._endpoint.health_timeout.total_seconds()
            yield event

    async def _next(self, stream: EventStream, patience: float | None) -> cloud_events.CloudEvent:
        try:
            async with asyncio.timeout(patience) as limit:
                event = await stream.recv_message()
                if event is None:
                    await stream.recv_trailing_metadata()  # raises the reason, when the server gave one
        except TimeoutError as cause:
            if not limit.expired():
                raise
            self.close()  # the other streams of it are as dead; the next call connects again
            raise errors.Stalled(f"{self._endpoint.url} has been silent for {patience:g} seconds") from cause
        if event is None:
            raise errors.Unreachable(f"{self._endpoint.url} ended the subscription")
        return event

    def close(self) -> None:
        """Close the connection at once: nothing is on the way, and a server that is gone would not end it with us."""
        protocol = self._channel._protocol  # noqa: SLF001 - the library only closes gently
        transport = getattr(protocol.connection, "_transport", None) if protocol is not None else None
        self._channel.close()
        if transport is not None:
            transport.abort()

    def _explain(self, cause: BaseException) -> Exception:
        if isinstance(cause, StreamTerminatedError):
            cause.__cause__ = self._channel.loss
        return to_kube_error(cause, self._endpoint.url, with_certificate=self._has_certificate)
