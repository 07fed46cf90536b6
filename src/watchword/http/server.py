"""Serves a function from requests to responses on a socket."""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import TypeAlias

from watchword.http.connection import (
    Handshake,
    RejectionHandler,
    RequestHandler,
    ServerConnection,
    plain_text_rejection,
)
from watchword.http.limits import (
    ConnectionTable,
    ServerLimits,
    choose_address_limit,
    choose_connection_limit,
    descriptor_limit,
)
from watchword.http.request_parser import RequestLimits

BACKLOG = 1024
ACCEPTS_AT_ONCE = 64
"""So many connections are accepted before requests get their turn."""

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
log = logging.getLogger(__name__)
SWEEP_EVERY = 5.0
"""How often deadlines are checked; one timer for all connections."""
ACCEPT_PAUSE = 0.1
"""How long no connection is accepted after the process ran out of descriptors."""
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CurrentContext: TypeAlias = Callable[[], ssl.SSLContext]
HTTP_1_1 = "http/1.1"
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME


class OutOfDescriptors(Exception):
    """No connection can be accepted before another one is closed."""


async def bind_sockets(host: str, port: int) -> tuple[socket.socket, ...]:
    """Listen on every address of a host, or of several separated by commas; raises `OSError`."""
    loop = asyncio.get_running_loop()
    found = [
        row
        for each in host.split(",")
        for row in await loop.getaddrinfo(each or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    ]
    opened: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            opened.append(listening)
            _listen(listening, address)
    except OSError:
        for listening in opened:
            listening.close()
        raise
    return tuple(opened)


def _listen(listening: socket.socket, address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> None:
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listening.bind(address)
    except OSError as cause:
        raise OSError(cause.errno, f"cannot listen on {address[0]!s}:{address[1]!s}: {cause.strerror}") from None
    listening.listen(BACKLOG)


def accept_connections(listening: socket.socket) -> list[tuple[socket.socket, str]]:
    """Return connections that wait, with their addresses; raises `OutOfDescriptors` when none can be taken."""
    accepted: list[tuple[socket.socket, str]] = []
    while len(accepted) < ACCEPTS_AT_ONCE:
        try:
            connected, address = listening.accept()
        except (BlockingIOError, InterruptedError):
            break
        except ConnectionError:  # the client has gone already
            continue
        except OSError as cause:
            if accepted or cause.errno not in _OUT_OF_RESOURCES:
                break
            raise OutOfDescriptors from cause
        with contextlib.suppress(OSError):
            connected.setblocking(False)
        accepted.append((connected, str(address[0]) if address else ""))
    return accepted


class HttpServer:
    """Accepts connections, passes requests to a function, and writes its responses."""

    def __init__(
        self,
        handle: RequestHandler,
        limits: ServerLimits | None = None,
        *,
        context: ssl.SSLContext | None = None,
        reject: RejectionHandler = plain_text_rejection,
    ) -> None:
        self.handle = handle
        self.reject = reject
        self.limits = limits or ServerLimits()
        self.reading = RequestLimits(self.limits.header_bytes, self.limits.body_bytes)
        self._context = context
        connections = choose_connection_limit(self.limits.connections, descriptor_limit())
        self._table: ConnectionTable[ServerConnection] = ConnectionTable(connections, choose_address_limit(connections))
        self._sockets: tuple[socket.socket, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._all_closed = asyncio.Event()
        self._date = (0, "")

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system chooses when 0 was requested."""
        self._sockets = await bind_sockets(host, port)
        self._accept_from(self._sockets)
        self._sweep()
        return int(self._sockets[0].getsockname()[1])

    async def stop(self) -> None:
        sockets, self._sockets = self._sockets, ()
        if not sockets:
            return
        loop = asyncio.get_running_loop()
        for listening in sockets:
            loop.remove_reader(listening)
            listening.close()
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._table.connections():
            connection.finish()
        await self._wait_until_closed(self.limits.drain_seconds)
        for connection in self._table.connections():
            connection.abort()
        await self._wait_until_closed(self.limits.drain_seconds)

    def authenticate(self, connection: ServerConnection, user: str) -> None:
        """Count a connection as one of a user, which unauthenticated clients cannot displace."""
        self._table.authenticate(connection, user)

    def unregister(self, connection: ServerConnection) -> None:
        self._table.discard(connection)
        if not self._table:
            self._all_closed.set()

    def date(self) -> str:
        """Return the current time in HTTP's format, computed once a second."""
        now = int(time.time())
        if now != self._date[0]:
            self._date = now, http_date(now)
        return self._date[1]

    def _accept_from(self, sockets: tuple[socket.socket, ...]) -> None:
        loop = asyncio.get_running_loop()
        for listening in sockets:
            if listening in self._sockets:  # the server may have stopped during a pause
                loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted = accept_connections(listening)
        except OutOfDescriptors:
            self._make_room(self._table.choose_least_needed())
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(ACCEPT_PAUSE, self._accept_from, (listening,))
            log.warning("no descriptor is left for a connection: raise the limit of open files (ulimit -n)")
            return
        for connected, address in accepted:
            self._make_room(self._table.choose_victim(address))
            connection = ServerConnection(self)
            if self._table.add(connection, address):
                connection.establish(Handshake(connected, self._context, self.limits.handshake_seconds))
            else:
                connected.close()

    def _make_room(self, victim: ServerConnection | None) -> None:
        if victim is not None:
            self._table.discard(victim)
            victim.abort()

    async def _wait_until_closed(self, patience: float) -> None:
        if not self._table:
            return
        self._all_closed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._all_closed.wait()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in self._table.connections():
            if connection.is_overdue(now):
                connection.abort()
        limits = self.limits
        shortest = min(limits.header_seconds, limits.request_seconds, limits.write_seconds, limits.keepalive_seconds)
        self._timer = loop.call_later(min(SWEEP_EVERY, shortest), self._sweep)


def http_date(seconds: float) -> str:
    at = time.gmtime(seconds)
    return (
        f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year} "
        f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
    )


class AlertingSslObject(ssl.SSLObject):
    """Sends the alert of a refused client certificate, so that the client knows why its handshake fails.

    asyncio closes such a connection without sending the alert, but sends it when the handshake asks for more data.
    So the refusal is raised at the next call.
    """

    _failure: ssl.SSLCertVerificationError | None = None

    def do_handshake(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback refers to this frame
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as refusal:
            self._failure = refusal.with_traceback(None)
            raise ssl.SSLWantReadError from None


def delegating_context(current: CurrentContext, protocol: str = HTTP_1_1) -> ssl.SSLContext:
    """Return a context that hands every handshake to the current one: certificates change without a restart."""
    front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    front.sslobject_class = AlertingSslObject

    def choose(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = current()

    front.sni_callback = choose
    front.minimum_version = ssl.TLSVersion.TLSv1_2
    front.set_alpn_protocols([protocol])
    # OpenSSL decides about client certificates before the callback: request one here, check it later.
    front.verify_mode = ssl.CERT_OPTIONAL
    front.verify_flags |= _NO_CHECK_TIME
    return front


def serving_context(
    certificate_file: str, key_file: str, client_roots_pem: bytes, protocol: str = HTTP_1_1
) -> ssl.SSLContext:
    """Return a context with the serving certificate that accepts client certificates of the given CAs.

    A client without one may connect. Dates are checked by the authenticator, because an expired certificate is a
    refused identity (401) rather than a broken connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate_file, key_file)
    context.load_verify_locations(cadata=client_roots_pem.decode("ascii"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= _NO_CHECK_TIME
    context.set_alpn_protocols([protocol])
    return context
