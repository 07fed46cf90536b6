"""What the handlers need of one gRPC call: its connection, its credential, and its message within limits."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from grpclib.protocol import Connection
from grpclib.server import Stream
from msgspec import Struct

from watchword.registration.grpc.errors import MalformedEvent
from watchword.registration.grpc.server.authentication import CallerCredential
from watchword.registration.grpc.server.limits import GrpcLimits
from watchword.registration.grpc.server.listener import abort
from watchword.registration.grpc.server.refusals import RequestRefused

T = TypeVar("T")
_PREFIX = struct.Struct(">?I")  # whether the message is compressed, and its length


class Call(Struct, frozen=True):
    """One call of a method."""

    stream: Stream[Any, Any]
    limits: GrpcLimits

    @property
    def connection(self) -> Connection:
        """The connection that the call came in on."""
        return self.stream._stream.connection  # noqa: SLF001 - the library shows only its peer

    @property
    def credential(self) -> CallerCredential:
        """What the caller presents."""
        header = self.stream.metadata.get("authorization", "") if self.stream.metadata is not None else ""
        secure = self.stream._stream._transport.get_extra_info("ssl_object")  # noqa: SLF001 - same
        certificate = secure.getpeercert(binary_form=True) if secure is not None else None
        return CallerCredential(header if isinstance(header, str) else "", certificate or b"")

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
