"""The embedded control plane as a backend of the `plane` fixtures."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from inspect import isasyncgen
from pathlib import Path

import orjson

from watchword.api.http import Peer, Request, Response
from watchword.apiserver.instance import Instance, Settings
from watchword.apiserver.plane import ControlPlane
from watchword.apiserver.standard import StandardRules, standard_access
from watchword.apiserver.store.memory import MemoryStore
from watchword.apiserver.trust import passing_rules
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.https import HttpsTransport
from watchword.kube.local import LocalTransport
from watchword.kube.tls import ClientCertificate
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import Subject
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.virtual import VirtualClock
from watchword.testing.credentials import _base64, _file_name, kubeconfig, write_private
from watchword.testing.errors import PlaneUnsuited
from watchword.testing.plane import Backend, Stop

AVAILABLE = True
LIFETIME = timedelta(days=3650)


@asynccontextmanager
async def open_embedded(folder: Path | None, *, with_socket: bool) -> AsyncIterator[Backend]:
    """Start a fresh control plane: in memory, or with its data in the folder; on a socket when asked.

    Without a socket the data stays in memory also when there is a folder: virtual time knows no threads.
    """
    if not with_socket:
        local = LocalBackend.make()
        await local.plane.start()
        try:
            yield local
        finally:
            await local.plane.stop()
        return
    with tempfile.TemporaryDirectory() as passing:
        served = SocketBackend(folder or Path(passing))
        await served.instance.start()
        try:
            yield served
        finally:
            await served.instance.stop()


@dataclass
class LocalBackend:
    """A control plane in memory, called as a function, on the clock of the running loop."""

    rules: StandardRules
    clock: Clock
    store: MemoryStore = field(default_factory=MemoryStore)
    name: str = "embedded"
    run_id: str = ""

    def __post_init__(self) -> None:
        self.plane = self._fresh_plane()
        self._ended = asyncio.Event()

    @classmethod
    def make(cls) -> LocalBackend:
        """Return a control plane that is not started yet."""
        clock = VirtualClock(asyncio.get_running_loop())
        return cls(passing_rules(clock.now), clock)

    @property
    def server(self) -> str:
        """Refuse: there is no socket."""
        raise PlaneUnsuited("this control plane has no socket: mark the test real_time")

    @property
    def ca_pem(self) -> bytes:
        """What clients must trust."""
        return self.rules.root_bundle()

    def connect(self, user: str, groups: Sequence[str]) -> Client:
        """Return a new client with a certificate of this user."""
        der, _ = _issue(self.rules.authority(), user, groups, self.clock)
        return Client(LocalTransport(self._handle, peer=Peer("in-process", (der,))))

    def kubeconfig_for(self, user: str, groups: Sequence[str]) -> Path:
        """Refuse: there is no socket."""
        raise PlaneUnsuited(f"no kubeconfig for {user} {groups}: this control plane has no socket")

    async def restart(self, *, kill: bool) -> None:
        """Go on with the same data in a new control plane; watches of the old one break off."""
        del kill  # nothing is ever half done in memory
        await self.plane.stop()
        self._ended.set()
        self._ended = asyncio.Event()
        self.plane = self._fresh_plane()
        await self.plane.start()

    async def start_controllers(self, names: Sequence[str]) -> Stop:
        """Do nothing: the controllers run from the start."""
        del names
        return lambda: None

    def _fresh_plane(self) -> ControlPlane:
        return ControlPlane(
            self.store, self.clock.now, standard_access(self.rules, now=self.clock.now, entropy=os.urandom)
        )

    async def _handle(self, request: Request) -> Response:
        response = await self.plane.handle(request)
        if response.stream is None:
            return response
        return replace(response, stream=_until(response.stream, self._ended))


class SocketBackend:
    """A control plane with its data on disk, reached over HTTPS."""

    name = "embedded"
    run_id = ""

    def __init__(self, folder: Path) -> None:
        self.clock: Clock = SystemClock()
        self._folder = folder
        self.instance = self._make(port=0)

    @property
    def server(self) -> str:
        """The URL."""
        return self.instance.server

    @property
    def ca_pem(self) -> bytes:
        """What clients must trust."""
        return self.instance.material.root_bundle

    def connect(self, user: str, groups: Sequence[str]) -> Client:
        """Return a new client with a certificate of this user."""
        _, certificate = _issue(self.instance.material.signing_authority(), user, groups, self.clock)
        credential = FixedCredential(Credential(certificate=certificate))
        return Client(HttpsTransport(Endpoint(self.server, self.ca_pem), credential))

    def kubeconfig_for(self, user: str, groups: Sequence[str]) -> Path:
        """Write a kubeconfig of this user."""
        path = self._folder / f"{_file_name(user, groups)}.kubeconfig"
        _, held = _issue(self.instance.material.signing_authority(), user, groups, self.clock)
        credential = {"client-certificate-data": _base64(held.chain), "client-key-data": _base64(held.key.reveal())}
        return write_private(path, orjson.dumps(kubeconfig(self.server, self.ca_pem, credential)))

    async def restart(self, *, kill: bool) -> None:
        """End the instance and start it again on the same data and port."""
        del kill  # what a crash leaves on disk is shown by the store's own suite
        port = self.instance.port
        await self.instance.stop()
        self.instance = self._make(port)
        await self.instance.start()

    async def start_controllers(self, names: Sequence[str]) -> Stop:
        """Do nothing: the controllers run from the start."""
        del names
        return lambda: None

    def _make(self, port: int) -> Instance:
        settings = Settings(data_dir=self._folder / "data", port=port, synchronous="NORMAL")
        return Instance(settings, self.clock.now)


def _issue(authority: Authority, user: str, groups: Sequence[str], clock: Clock) -> tuple[bytes, ClientCertificate]:
    """Issue a client certificate: as DER for a peer, and with its key for TLS."""
    key = PrivateKey.generate()
    subject = Subject(user, tuple(groups))
    certificate = authority.issue_client(key.public, subject, now=clock.now(), lifetime=LIFETIME)
    return certificate.der, ClientCertificate(certificate.pem, key.pem)


async def _until(stream: AsyncIterator[bytes], ended: asyncio.Event) -> AsyncIterator[bytes]:
    """Pass a stream on until the server ends, as a broken connection would."""
    ending = asyncio.ensure_future(ended.wait())
    following: asyncio.Future[bytes] | None = None
    try:
        while True:
            following = asyncio.ensure_future(anext(stream))
            await asyncio.wait({following, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return
            try:
                yield following.result()
            except StopAsyncIteration:
                return
    finally:
        ending.cancel()
        if following is not None and not following.done():
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        if isasyncgen(stream):
            await stream.aclose()
