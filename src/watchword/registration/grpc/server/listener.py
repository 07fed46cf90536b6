"""Accepts connections: TLS with files that may be replaced, HTTP/2, bounded in number and size."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import structlog
from grpclib.config import Configuration
from grpclib.encoding.base import CodecBase
from grpclib.protocol import Connection, EventsProcessor, H2Protocol
from grpclib.server import Handler, Server
from h2.errors import ErrorCodes
from h2.events import Event, PingReceived, PriorityUpdated, RemoteSettingsChanged, RequestReceived, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
from msgspec import Struct

from watchword.api.rate_limit import Rate, TokenBucket, TokenBuckets
from watchword.http.limits import ConnectionTable
from watchword.http.server import serving_context
from watchword.kube.files import read_small_file
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.registration.grpc.errors import TlsFilesUnusable

ALPN = "h2"
GOAWAY_SECONDS = 1.0  # how long a client has to read why its connection ends
PREFACE_BYTES, FRAME_HEADER_BYTES, DATA_FRAME = 24, 9, 0  # of HTTP/2
SMALL_MESSAGE_BYTES = 64
COSTLY = (RequestReceived, StreamReset, PingReceived, RemoteSettingsChanged, PriorityUpdated)


class GrpcLimits(Struct, frozen=True, kw_only=True):
    """Sizes, rates and times; the defaults are those of Open Cluster Management's server where it has them."""

    message_bytes: int = 4 * 1024 * 1024
    connections: int = 4096  # fewer where the process may not open so many files
    streams_per_connection: int = 100
    window_bytes: int = 256 * 1024  # how much of a connection is buffered before it is read
    handshake_seconds: float = 10.0
    authentication_seconds: float = 60.0  # from the handshake to the first call of a known user
    frames: Rate = Rate(200, 1000)  # of one connection: calls, resets, pings and settings
    unauthenticated_frames: Rate = Rate(20, 30)  # of any kind, before a call is authenticated: an agent sends a dozen
    receive_seconds: float = 30.0  # from the headers of a request to the end of its message
    send_seconds: float = 30.0  # how long a client may stop reading
    ping_seconds: float = 30.0
    ping_timeout_seconds: float = 10.0
    heartbeat_seconds: float = 10.0
    requests_per_second: float = 50.0  # of one user; the rate to which agents limit themselves
    burst: int = 200
    drain_seconds: float = 10.0

    def user_rates(self) -> TokenBuckets:
        """Return the buckets of all users; one that is forgotten was silent for long enough to be full again."""
        return TokenBuckets(Rate(self.requests_per_second, self.burst), 4 * self.connections)


_FileVersions: TypeAlias = tuple[tuple[int, int], ...]


class _Material(NamedTuple):
    version: _FileVersions
    context: ssl.SSLContext
    roots: tuple[Certificate, ...]


@dataclass
class TlsFiles:
    """Reads the files again when they have changed; keeps what it has while they cannot be used."""

    certificate: Path
    key: Path
    client_roots: Path
    _held: _Material | None = field(default=None, init=False, repr=False)

    def load(self) -> None:
        """Read the files; `TlsFilesUnusable` when they cannot be used."""
        self._held = self._read(self._version())

    def context(self) -> ssl.SSLContext:
        return self._current().context

    def roots(self) -> tuple[Certificate, ...]:
        return self._current().roots

    def _current(self) -> _Material:
        try:
            version = self._version()
            if self._held is None or self._held.version != version:
                self._held = self._read(version)
        except TlsFilesUnusable:  # such as a certificate whose key is not there yet
            if self._held is None:
                raise
        return self._held

    def _version(self) -> _FileVersions:
        try:
            found = [path.stat() for path in (self.certificate, self.key, self.client_roots)]
        except OSError as cause:
            raise TlsFilesUnusable(f"{cause.filename} cannot be read: {cause.strerror}") from cause
        return tuple((entry.st_mtime_ns, entry.st_ino) for entry in found)

    def _read(self, version: _FileVersions) -> _Material:
        try:
            bundle = read_small_file(self.client_roots, "client CA file")
            roots = split_bundle(bundle)
            context = serving_context(str(self.certificate), str(self.key), bundle, ALPN)
        except (OSError, ValueError, PkiError) as cause:
            raise TlsFilesUnusable(
                f"{self.certificate}, {self.key} and {self.client_roots} cannot be used together: {cause}"
            ) from cause
        return _Material(version, context, roots)


class FrameCounter:
    """Counts the frames in received bytes without parsing them, which costs the library a hundred times as much."""

    def __init__(self) -> None:
        self._skipped = PREFACE_BYTES  # of what comes next: the rest of a frame
        self._rest = b""  # the beginning of a frame's header

    def count(self, data: bytes) -> int:
        """Return how many frames begin in these bytes; those that bring a good part of a message are not counted."""
        data, position, found = self._rest + data, self._skipped, 0
        while position + FRAME_HEADER_BYTES <= len(data):
            length = int.from_bytes(data[position : position + 3])
            found += data[position + 3] != DATA_FRAME or length < SMALL_MESSAGE_BYTES
            position += FRAME_HEADER_BYTES + length
        self._rest, self._skipped = data[position:], max(0, position - len(data))
        return found


class BoundedProcessor(EventsProcessor):
    """Ends a connection that sends more frames than a client needs: each is cheap to send, and costs the server."""

    def __init__(self, protocol: BoundedProtocol, limits: GrpcLimits) -> None:
        super().__init__(protocol.handler, protocol.connection)
        self._protocol = protocol
        self._frames = TokenBucket(limits.frames)

    def process(self, event: Event) -> None:
        is_counted = isinstance(event, COSTLY) and self._protocol.is_authenticated
        if is_counted and self._frames.reserve(asyncio.get_running_loop().time()):
            self._protocol.refuse("too many frames")
        else:
            super().process(event)


class BoundedProtocol(H2Protocol):
    """One connection: counted, limited in streams and frames, and closed by whatever grpclib does not expect."""

    def __init__(self, handler: Handler, listener: GrpcListener) -> None:
        super().__init__(handler, listener.configuration, listener.h2_configuration)
        self._listener = listener
        self._is_refused = False
        self._counter = FrameCounter()
        self._unauthenticated_frames = TokenBucket(listener.limits.unauthenticated_frames)

    @property
    def is_authenticated(self) -> bool:
        return self._listener.table.is_authenticated(self.connection)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start HTTP/2, unless there are too many connections."""
        super().connection_made(transport)
        limits = self._listener.limits
        most = limits.streams_per_connection
        self.connection._connection.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: most})  # noqa: SLF001
        self.connection.flush()
        address = transport.get_extra_info("peername")
        if not self._listener.admit(self.connection, str(address[0]) if address else ""):
            abort(self.connection)
        self.processor = BoundedProcessor(self, limits)
        asyncio.get_running_loop().call_later(limits.authentication_seconds, self._require_authenticated)

    def _require_authenticated(self) -> None:
        if not self.is_authenticated and not self.connection.is_closing():
            self.refuse("no call was authenticated in time")

    def refuse(self, reason: str) -> None:
        """Tell the client why, and close the connection a second later, whether or not the client reads that.

        Until then it counts as one of its address, so that one client cannot make the server shake hands without pause.
        """
        if self._is_refused:
            return
        self._is_refused = True
        self._listener.log.info("connection closed", reason=reason)
        transport: asyncio.Transport = self.connection._transport  # noqa: SLF001 - the library only closes gently
        with contextlib.suppress(ProtocolError):  # the library has closed it already
            self.connection._connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)  # noqa: SLF001 - same
        self.connection.flush()
        self.processor.close(reason)
        transport.pause_reading()
        asyncio.get_running_loop().call_later(GOAWAY_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Process received bytes; those that the library cannot process end the connection, and nothing else."""
        if self._is_refused:
            return
        if not self.is_authenticated:
            now = asyncio.get_running_loop().time()
            if any(self._unauthenticated_frames.reserve(now) for _ in range(self._counter.count(data))):
                self.refuse("too many frames")
                return
        try:
            super().data_received(data)
        except Exception as error:  # noqa: BLE001 - untrusted bytes, and a library that does not expect all of them
            self.refuse(f"invalid HTTP/2 ({type(error).__name__})")

    def connection_lost(self, exc: BaseException | None) -> None:
        self._listener.table.discard(self.connection)
        super().connection_lost(exc)


def abort(connection: Connection) -> None:
    """Close a connection at once, without waiting for the client to read."""
    if not connection.is_closing():
        connection._transport.abort()  # noqa: SLF001 - the library only closes gently


class GrpcListener(Server):
    """grpclib's server with limits."""

    def __init__(
        self, handlers: Collection[Any], codec: CodecBase, limits: GrpcLimits, table: ConnectionTable[Connection]
    ) -> None:
        super().__init__(handlers, codec=codec, config=_configuration(limits))
        self.limits = limits
        self.table = table
        self.configuration = self._config
        self.h2_configuration = self._h2_config
        self.log: Any = structlog.get_logger("watchword.grpc-server")

    async def listen(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen; return the port, which the system chooses when 0 was requested."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._protocol_factory,
            host,
            port,
            ssl=context,
            ssl_handshake_timeout=self.limits.handshake_seconds,
            backlog=1024,
        )
        self._server_closed_fut = loop.create_future()
        return int(self._server.sockets[0].getsockname()[1])

    async def drain(self) -> None:
        """Accept no connection any more, and wait until no call is in progress."""
        if self._server is not None:
            self._server.close()
        tasks = [task for handler in self._handlers for task in handler._tasks.values()]  # noqa: SLF001 - no other way
        if tasks:
            await asyncio.wait(tasks)

    def admit(self, connection: Connection, address: str) -> bool:
        victim = self.table.choose_victim(address)
        if victim is not None:
            self.table.discard(victim)
            abort(victim)
        return self.table.add(connection, address)

    def _protocol_factory(self) -> H2Protocol:
        self.__gc_step__()
        handler = Handler(self._mapping, self._codec, self._status_details_codec, self.__dispatch__)
        self._handlers.add(handler)
        return BoundedProtocol(handler, self)


def _configuration(limits: GrpcLimits) -> Configuration:
    return Configuration(
        _keepalive_time=limits.ping_seconds,
        _keepalive_timeout=limits.ping_timeout_seconds,
        _keepalive_permit_without_calls=True,
        _http2_max_pings_without_data=0,
        _http2_min_sent_ping_interval_without_data=limits.ping_seconds / 2,
        http2_connection_window_size=limits.window_bytes,
        http2_stream_window_size=limits.window_bytes,
    )
