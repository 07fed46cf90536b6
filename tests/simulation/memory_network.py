"""Connections between processes of a simulation, byte by byte in memory; what TLS would decide is decided here."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from tests.simulation.network import Link, ProcessRun

from watchword.pki.certificates import Certificate, parse_certificate, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.subjects import Usage
from watchword.runtime.clock import Clock
from watchword.testing.virtual_time import VirtualLoop

GIVEN_UP_AFTER = 900.0  # seconds until a sender gives up on a peer that acknowledges nothing
MISSED_AFTER = 60.0  # seconds until a server that pings its clients misses one
LONGEST_DELAY = 30.0  # seconds that data are under way on a slow road
BREAKS = 0.02  # how often a slow road breaks instead

Address = tuple[str, int]
Factory = Callable[[], asyncio.Protocol]


class ClientEnd(Struct, frozen=True):
    """The process that connects; without a road no fault reaches it."""

    clock: Clock | None = None  # None: that of the server
    run: ProcessRun | None = None
    link: Link | None = None


class ServerEnd(Struct, frozen=True):
    """The process that listens, and what it shows and trusts at this moment."""

    clock: Clock
    run: ProcessRun
    certificate: Callable[[], Certificate]
    roots: Callable[[], tuple[Certificate, ...]]


CLIENT: ContextVar[ClientEnd] = ContextVar("CLIENT")
SERVER: ContextVar[ServerEnd] = ContextVar("SERVER")


@dataclass(eq=False)
class Listener:
    """One replica of a server, as asyncio knows it."""

    end: ServerEnd
    factory: Factory
    address: Address
    is_open: bool = True

    @property
    def sockets(self) -> tuple[Listener]:
        """The only socket."""
        return (self,)

    @property
    def is_serving(self) -> bool:
        """Whether it accepts connections."""
        return self.is_open and not self.end.run.dead

    def getsockname(self) -> Address:
        """Return where it listens."""
        return self.address

    def close(self) -> None:
        """Accept nothing more."""
        self.is_open = False

    async def wait_closed(self) -> None:
        """Do nothing: connections end by themselves."""


class Handshake(Struct, frozen=True):
    """What a TLS connection says about its peer."""

    certificate: bytes = b""

    def getpeercert(self, *, binary_form: bool = False) -> bytes | None:
        """Return the certificate of the peer."""
        return self.certificate if binary_form and self.certificate else None

    def selected_alpn_protocol(self) -> str:
        """Return what both ends speak."""
        return "h2"


class MemoryTransport(asyncio.Transport):
    """One end of a connection: what is written arrives at the other end, in order."""

    def __init__(self, connection: Connection, protocol: asyncio.Protocol, run: ProcessRun | None) -> None:
        self.handshake = Handshake()
        self.peer: MemoryTransport | None = None
        self._connection, self._protocol, self._run = connection, protocol, run
        self._buffer: list[bytes] = []
        self._closing = False
        self._gives_up: asyncio.TimerHandle | None = None
        super().__init__({"peername": ("simulated", 0)})

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection."""
        return self.handshake if name == "ssl_object" else super().get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether nothing is sent any more."""
        return self._closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; the connection of a process that was killed is gone with it."""
        if self._closing:
            return
        if self._run is not None and self._run.dead:
            self._connection.end()
            return
        if self._connection.is_silent:
            self._gives_up = self._gives_up or asyncio.get_running_loop().call_later(GIVEN_UP_AFTER, self.abort)
            return
        self._buffer.append(bytes(data))
        if len(self._buffer) == 1:
            self._connection.schedule(self._deliver)

    def _deliver(self) -> None:
        data, self._buffer = b"".join(self._buffer), []
        peer = self.peer
        if data and peer is not None and not peer.is_closing() and not self._connection.is_silent:
            peer._protocol.data_received(data)

    def pause_reading(self) -> None:
        """Do nothing: a server that stops to read ends the connection a second later."""

    def close(self) -> None:
        """Send what was written, and end the connection."""
        if not self._closing:
            self._deliver()
            self._connection.end()

    def abort(self) -> None:
        """End the connection."""
        self._connection.end()

    def lost(self) -> None:
        """Tell the protocol that the connection is gone."""
        if self._gives_up is not None:
            self._gives_up.cancel()
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


class Connection:
    """One connection; it breaks with the road of its client, which asks it as it asks the streams of other servers."""

    def __init__(self, network: MemoryNetwork, client: ClientEnd, listener: Listener) -> None:
        self.client, self.listener = client, listener
        self.is_silent = False
        self._network = network
        self._ends: tuple[MemoryTransport, ...] = ()

    def open(self, factory: Factory, certificate: bytes) -> tuple[MemoryTransport, asyncio.Protocol]:
        """Connect both protocols."""
        protocols = factory(), self.listener.factory()
        ours = MemoryTransport(self, protocols[0], self.client.run)
        theirs = MemoryTransport(self, protocols[1], self.listener.end.run)
        ours.peer, theirs.peer, theirs.handshake = theirs, ours, Handshake(certificate)
        self._ends = ours, theirs
        self._network.connections[self] = None
        if self.client.link is not None:
            self.client.link.streams[self] = None
        protocols[0].connection_made(ours)
        protocols[1].connection_made(theirs)
        return ours, protocols[0]

    def expired(self) -> bool:
        """Whether it is over."""
        return self not in self._network.connections

    def reschedule(self, when: float | None) -> None:
        """Break it, as the road does with everything on it."""
        if when is not None:
            self.end()

    def schedule(self, deliver: Callable[[], None]) -> None:
        """Deliver soon, or late where the road is slow; such a road breaks now and then instead."""
        loop, random = asyncio.get_running_loop(), self._network.random
        if self.client.link is None or not self._network.slow[self.client.link.name]:
            loop.call_soon(deliver)
        elif random.random() < BREAKS:
            loop.call_soon(self.end)
        else:
            loop.call_later(random.uniform(0, LONGEST_DELAY), deliver)

    def fall_silent(self) -> None:
        """Let nothing through any more; the server's pings find out, and the client has to by itself."""
        self.is_silent = True
        asyncio.get_running_loop().call_later(MISSED_AFTER, self._ends[1].lost)

    def end(self) -> None:
        """Break it."""
        if self.expired():
            return
        del self._network.connections[self]
        if self.client.link is not None:
            self.client.link.streams.pop(self, None)
        for end in self._ends:
            end.lost()


@dataclass
class MemoryNetwork:
    """Where servers listen, under one name, and who is connected with them."""

    random: Random
    name: Callable[[], Address]  # where clients find them now
    listeners: list[Listener] = field(default_factory=list)
    connections: dict[Connection, None] = field(default_factory=dict)
    slow: Counter[str] = field(default_factory=Counter)  # roads, and how many reasons there are
    silent: Counter[str] = field(default_factory=Counter)
    shown: WeakKeyDictionary[ssl.SSLContext, bytes] = field(default_factory=WeakKeyDictionary)  # client certificates

    def listen(self, factory: Factory) -> Listener:
        """Begin to listen as the present process."""
        self.listeners = [known for known in self.listeners if known.is_serving]
        listener = Listener(SERVER.get(), factory, self.name())
        self.listeners.append(listener)
        return listener

    async def connect(
        self, factory: Factory, address: Address, context: ssl.SSLContext
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Connect the present process; `OSError` when that fails."""
        client = CLIENT.get(ClientEnd())
        serving = [listener for listener in self.listeners if listener.is_serving and address == self.name()]
        if client.link is not None and self.silent[client.link.name]:
            await asyncio.Event().wait()
        if (
            not serving
            or (client.link is not None and client.link.cuts)
            or (client.run is not None and client.run.dead)
        ):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        listener = self.random.choice(serving)
        self._verify_server(listener, address, context, client)
        presented = self.shown.get(context, b"")
        connection = Connection(self, client, listener)
        opened = connection.open(factory, presented)
        if presented and not _is_of_known_authority(presented, listener.end):
            connection.end()  # in TLS 1.3 the client learns of it after its own handshake
        return opened

    def _verify_server(self, listener: Listener, address: Address, context: ssl.SSLContext, client: ClientEnd) -> None:
        shown = listener.end.certificate()
        roots = [parse_certificate(der) for der in context.get_ca_certs(binary_form=True)]
        now = (client.clock or listener.end.clock).now()
        try:
            verify_chain(shown, roots, now=now, usage=Usage.SERVER_AUTH)
        except PkiError as cause:
            raise ssl.SSLCertVerificationError(1, str(cause)) from cause
        if address[0] not in shown.names.dns:
            raise ssl.SSLCertVerificationError(1, "the certificate is for another name")

    def fall_silent(self, link: Link) -> None:
        """Let nothing through on a road, neither on its connections nor on new ones."""
        self.silent[link.name] += 1
        for connection in [each for each in self.connections if each.client.link is link]:
            connection.fall_silent()


def _is_of_known_authority(der: bytes, server: ServerEnd) -> bool:
    leaf = parse_certificate(der)
    try:  # dates are for the server's authenticator to check
        verify_chain(leaf, server.roots(), now=leaf.not_before)
    except PkiError:
        return False
    return True


class SimulatedLoop(VirtualLoop):
    """Virtual time, with servers and connections in memory where a simulation has some."""

    network: MemoryNetwork | None = None

    async def create_connection(  # type: ignore[override]
        self, factory: Factory, host: str, port: int, *, ssl: ssl.SSLContext, **_: Any
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Connect in memory."""
        if self.network is None:
            await super().create_connection()
        return await self.network.connect(factory, (host, port), ssl)

    async def create_server(self, factory: Factory, *_: Any, **__: Any) -> Listener:  # type: ignore[override]
        """Listen in memory."""
        if self.network is None:
            await super().create_server()
        return self.network.listen(factory)
