"""A gRPC server that is not ours: grpcio with the published protocol, and events as OCM's server sends them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import orjson
from tests.registration.grpc.published_protocol import PublishedProtocol

from watchword.api.meta import Object
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames
from watchword.registration.grpc.config import GrpcEndpoint

HEARTBEAT = "io.open-cluster-management.cloudevents.heartbeat"


@dataclass
class ScriptedServer:
    """Answers resyncs with what a test puts in, refuses what a test names, and remembers what was published."""

    protocol: PublishedProtocol
    authority: Authority = field(default_factory=lambda: Authority.make("ca", now=datetime.now(UTC)))
    port: int = 0
    objects: dict[str, list[Any]] = field(default_factory=dict)  # data type → events for a resync
    refusals: dict[str, tuple[grpc.StatusCode, str]] = field(default_factory=dict)  # type of an event → refusal
    published: list[Any] = field(default_factory=list)
    subscribed: asyncio.Queue[str] = field(default_factory=asyncio.Queue)  # the data type of each subscription
    marks_resync: bool = True  # OCM's server does not
    metadata: list[dict[str, str]] = field(default_factory=list)
    on_publish: Callable[[Any], None] = lambda _: None
    _streams: dict[str, list[asyncio.Queue[Any]]] = field(default_factory=dict)

    @property
    def endpoint(self) -> GrpcEndpoint:
        return GrpcEndpoint(url=f"127.0.0.1:{self.port}", ca_data=self.authority.certificate.pem)

    def event(self, type_: str, data: Object | None, **attributes: Any) -> Any:
        message = self.protocol.messages.CloudEvent(id=str(uuid.uuid4()), source="kube", spec_version="1.0", type=type_)
        for name, value in attributes.items():
            if isinstance(value, int):
                message.attributes[f"ce-{name}"].ce_integer = value
            else:
                message.attributes[f"ce-{name}"].ce_string = str(value)
        if data is not None:
            message.attributes["contenttype"].ce_string = "application/json"
            message.binary_data = orjson.dumps(data)
        return message

    def deletion(self, type_: str, **attributes: Any) -> Any:
        message = self.event(type_, None, **attributes)
        message.attributes["ce-deletiontimestamp"].ce_timestamp.GetCurrentTime()
        return message

    def send(self, data_type: str, event: Any) -> None:
        """Send an event to the subscribers of a data type."""
        for queue in self._streams.get(data_type, ()):
            queue.put_nowait(event)

    def heartbeat(self, data_type: str, id_: str = "h") -> None:
        self.send(data_type, self.protocol.messages.CloudEvent(id=id_, type=HEARTBEAT))

    def end(self, data_type: str) -> None:
        """End the streams of a data type."""
        self.send(data_type, None)

    async def Publish(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name of the method
        event = request.event
        refusal = self.refusals.get(event.type)
        if refusal is not None:
            await context.abort(*refusal)
        self.published.append(event)
        self.metadata.append(dict(context.invocation_metadata()))
        self.on_publish(event)
        if event.type.endswith("resync_request"):
            data_type = event.type.removesuffix(".spec.resync_request")
            for each in self.objects.get(data_type, ()):
                self.send(data_type, each)
            if self.marks_resync:
                self.heartbeat(data_type, event.id)
        return self.protocol.messages.google_dot_protobuf_dot_empty__pb2.Empty()

    async def Subscribe(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - same
        refusal = self.refusals.get(request.data_type)
        if refusal is not None:
            await context.abort(*refusal)
        queue: asyncio.Queue[Any] = asyncio.Queue()
        streams = self._streams.setdefault(request.data_type, [])
        streams.append(queue)
        self.subscribed.put_nowait(request.data_type)
        marked = (("resync-end", "heartbeat"),) if self.marks_resync else ()
        await context.send_initial_metadata((("subscription-id", str(uuid.uuid4())), *marked))
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            streams.remove(queue)


@asynccontextmanager
async def run_scripted_server(protocol: PublishedProtocol) -> AsyncIterator[ScriptedServer]:
    """Serve on a port of the system's choice."""
    scripted = ScriptedServer(protocol)
    server = grpc.aio.server()
    protocol.stubs.add_CloudEventServiceServicer_to_server(scripted, server)
    key, names = PrivateKey.generate(), AlternativeNames(("localhost",), ("127.0.0.1",))
    certificate = scripted.authority.issue_serving(
        key.public, names, now=datetime.now(UTC), lifetime=timedelta(hours=1)
    )
    credentials = grpc.ssl_server_credentials([(key.pem.reveal(), certificate.pem)])
    scripted.port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield scripted
    finally:
        await server.stop(None)
