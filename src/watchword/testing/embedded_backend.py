"""The embedded control plane as a backend of the `plane` fixtures: in this process, with or without a socket."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from watchword.api.http import Peer, Request, Response
from watchword.apiserver.access.config import access_control_factory
from watchword.apiserver.access.pki_directory import ephemeral_access_config
from watchword.apiserver.access.service_accounts import TokenKeys
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.listener import api_listener
from watchword.apiserver.serving.watch import BOOKMARK_EVERY
from watchword.apiserver.store.memory import MemoryStore
from watchword.http.server import HttpServer, serving_context
from watchword.kube.client import Client
from watchword.kube.errors import Unreachable
from watchword.kube.transport import InProcessTransport
from watchword.pki.certificates import parse_certificate
from watchword.pki.keys import PrivateKey
from watchword.runtime.clock import Clock, SystemClock
from watchword.testing.credentials import ClusterCredentials, connect_by_certificate
from watchword.testing.errors import UnsupportedByPlane
from watchword.testing.plane import Stop
from watchword.testing.virtual_time import VirtualClock, VirtualLoop

NO_BOOKMARKS = 10.0**9
"""Seconds: in virtual time bookmarks every minute were two fifths of the processor time of tests that last hours."""


class EmbeddedBackend:
    """A control plane in memory; its clock is the loop's, virtual or real."""

    name = "embedded"
    run_id = ""

    def __init__(self, folder: Path, *, bookmarks: bool = False) -> None:
        loop = asyncio.get_running_loop()
        is_virtual = isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop) if is_virtual else SystemClock()
        self._bookmark_every = NO_BOOKMARKS if is_virtual and not bookmarks else BOOKMARK_EVERY
        self._rules = ephemeral_access_config(self.clock.now)
        self.store = MemoryStore()
        self._credentials = ClusterCredentials(folder, self._rules.authority(), self.clock)
        self._handler = InterruptibleHandler()

    @property
    def server(self) -> str:
        raise UnsupportedByPlane("this control plane has no socket: mark the test real_time to get one")

    @property
    def ca_pem(self) -> bytes:
        return self._credentials.ca_pem

    def connect(self, user: str, groups: Sequence[str]) -> Client:
        certificate = parse_certificate(self._credentials.client_certificate(user, groups).chain)
        peer = Peer(address="in-process", certificate_chain=(certificate.der,))
        return Client(InProcessTransport(self._handler.handle, peer=peer))

    def kubeconfig_for(self, user: str, groups: Sequence[str]) -> Path:
        return self._credentials.kubeconfig(self.server, user, groups)

    async def start(self) -> None:
        access = access_control_factory(self._rules, now=self.clock.now, entropy=os.urandom)
        plane = ControlPlane(self.store, self.clock.now, access, bookmark_every=self._bookmark_every)
        await plane.start()
        self._handler.open(plane)

    async def stop(self) -> None:
        plane = self._handler.interrupt()
        if plane is not None:
            await plane.stop()

    async def restart(self, *, kill: bool) -> None:  # noqa: ARG002 - clients cannot tell: both cut their watches
        await self.stop()
        await self.start()

    async def rotate_signing_key(self, *, keep_old: bool) -> None:
        earlier = self._rules.token_keys.public if keep_old else ()
        self._rules = replace(self._rules, token_keys=TokenKeys(PrivateKey.generate(), earlier))
        await self.restart(kill=False)

    async def start_controllers(self, names: Sequence[str]) -> Stop:  # noqa: ARG002 - they all run already
        return lambda: None


class ListeningBackend(EmbeddedBackend):
    """The same on a loopback socket with TLS, for other programs and for clients over HTTPS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._credentials.write_serving()
        self._context = serving_context(f"{folder}/server.crt", f"{folder}/server.key", self.ca_pem)
        self._port = 0
        self._listener: HttpServer | None = None

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def connect(self, user: str, groups: Sequence[str]) -> Client:
        return connect_by_certificate(self.server, self._credentials, user, groups)

    async def start(self) -> None:
        await super().start()
        self._listener = api_listener(self._handler.handle, lambda: self._context)
        self._port = await self._listener.start("127.0.0.1", self._port)

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None
        await super().stop()


class InterruptibleHandler:
    """A switch in front of the control plane: off, calls fail and streams break as if the server had crashed."""

    def __init__(self) -> None:
        self._plane: ControlPlane | None = None
        self._waiting: dict[asyncio.Timeout, None] = {}  # in the order in which they began

    def open(self, plane: ControlPlane) -> None:
        self._plane = plane

    def interrupt(self) -> ControlPlane | None:
        """Pass no more requests; return the control plane."""
        plane, self._plane = self._plane, None
        for scope in self._waiting:
            scope.reschedule(asyncio.get_running_loop().time())
        return plane

    async def handle(self, request: Request) -> Response:
        if self._plane is None:
            raise Unreachable("the control plane is down", maybe_processed=False)
        plane = self._plane
        response = await plane.handle(request)
        if response.stream is None:
            return response
        return replace(response, stream=self._breakable(response.stream, plane))

    async def _breakable(self, stream: AsyncIterator[bytes], plane: ControlPlane) -> AsyncIterator[bytes]:
        try:
            while self._plane is plane:
                async with asyncio.timeout(None) as scope:
                    self._waiting[scope] = None
                    try:
                        chunk = await anext(stream, None)
                    finally:
                        self._waiting.pop(scope, None)
                if chunk is None:
                    return
                if self._plane is not plane:
                    break
                yield chunk
        except TimeoutError:
            pass
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        raise Unreachable("the control plane went down", maybe_processed=False)


@asynccontextmanager
async def open_embedded(folder: Path, *, listening: bool, bookmarks: bool = False) -> AsyncIterator[EmbeddedBackend]:
    """Start a control plane in memory, with a socket when requested, and stop it at the end."""
    backend = ListeningBackend(folder) if listening else EmbeddedBackend(folder, bookmarks=bookmarks)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.stop()
