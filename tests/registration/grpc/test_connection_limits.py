"""What one connection may cost the gRPC server before and after it is authenticated, with a client of raw HTTP/2."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated
from tests.registration.grpc.grpc_hub import LEASE, GrpcHub

from watchword.registration.grpc.cloud_events import PUBLISH
from watchword.registration.grpc.server.listener import FrameCounter

pytestmark = pytest.mark.real_time

HEADERS = [(":method", "POST"), (":scheme", "https"), (":authority", "hub"), (":path", PUBLISH), ("te", "trailers")]
HEADERS += [("content-type", "application/grpc+proto")]


class RawClient:
    """A connection that sends any frames and never shows a credential."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.h2 = reader, writer, H2Connection()
        self.h2.initiate_connection()

    @classmethod
    async def connect(cls, hub: GrpcHub) -> RawClient:
        context = ssl.create_default_context(cadata=hub.authority.certificate.pem.decode())
        context.set_alpn_protocols(["h2"])
        return cls(*await asyncio.open_connection("127.0.0.1", hub.port, ssl=context, server_hostname="localhost"))

    async def until_closed(self, flood: Callable[[H2Connection], None]) -> tuple[int, ErrorCodes | None]:
        """Send frames until the server ends the connection; return how often, and the code of its GOAWAY."""
        code, rounds, reading = None, 0, asyncio.ensure_future(self.reader.read(65536))
        while True:
            if not self.writer.is_closing():
                flood(self.h2)
                self.writer.write(self.h2.data_to_send())
                rounds += 1
            await asyncio.wait({reading}, timeout=0)
            if not reading.done():
                continue
            data = reading.result() if reading.exception() is None else b""
            if not data:
                self.writer.transport.abort()
                return rounds, code
            ended = [event for event in self.h2.receive_data(data) if isinstance(event, ConnectionTerminated)]
            if ended:
                code = ErrorCodes(ended[0].error_code or 0)
                self.writer.transport.abort()
                return rounds, code
            reading = asyncio.ensure_future(self.reader.read(65536))


def reset(h2: H2Connection) -> None:
    stream = h2.get_next_available_stream_id()
    h2.send_headers(stream, HEADERS)
    h2.reset_stream(stream)


def call(h2: H2Connection) -> None:
    if h2.open_outbound_streams < 90:
        h2.send_headers(h2.get_next_available_stream_id(), HEADERS, end_stream=True)


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(reset, id="rapid reset"),
        pytest.param(call, id="calls"),
        pytest.param(lambda h2: h2.ping(b"12345678"), id="pings"),
        pytest.param(lambda h2: h2.update_settings({1: 4096}), id="settings"),
        pytest.param(lambda h2: h2.increment_flow_control_window(1), id="window updates"),
    ],
)
async def test_unauthenticated_client_that_floods_the_server_loses_its_connection(
    hub: GrpcHub, flood: Callable[[H2Connection], None]
) -> None:
    await hub.start()
    client = await RawClient.connect(hub)

    async with asyncio.timeout(60):
        _, code = await client.until_closed(flood)

    assert code is ErrorCodes.ENHANCE_YOUR_CALM
    async with hub.agent(await hub.accepted()).subscribed(LEASE):
        pass  # others are served


async def test_unauthenticated_client_that_never_authenticates_loses_its_connection(hub: GrpcHub) -> None:
    await hub.start(hub.limits(authentication_seconds=0.2))
    client = await RawClient.connect(hub)
    client.writer.write(client.h2.data_to_send())

    async with asyncio.timeout(60):
        _, code = await client.until_closed(lambda _: None)

    assert code is ErrorCodes.ENHANCE_YOUR_CALM


async def test_agent_that_cancels_many_calls_keeps_its_connection(hub: GrpcHub) -> None:
    await hub.start(hub.limits(authentication_seconds=0.2))
    agent = hub.agent(await hub.accepted())

    async with agent.subscribed(LEASE) as first:
        for _ in range(150):  # calls and resets together exceed what an unauthenticated client may send at once
            async with agent.subscribed(LEASE):
                pass

        await asyncio.sleep(0.3)
        assert not first.done()


@pytest.mark.parametrize("size", [1, 7, 24, 100, 10_000])
def test_frames_are_counted_however_their_bytes_arrive(size: int) -> None:
    h2, counter = H2Connection(), FrameCounter()
    h2.initiate_connection()  # the preface and one frame
    for _ in range(20):
        h2.ping(b"12345678")
    stream = h2.get_next_available_stream_id()
    h2.send_headers(stream, HEADERS)
    h2.send_data(stream, b"a" * 1000)  # part of a message
    data = h2.data_to_send()

    found = [counter.count(data[start : start + size]) for start in range(0, len(data), size)]

    assert sum(found) == 1 + 20 + 1
