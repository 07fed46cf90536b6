"""The embedded control plane in a process of its own, which can be killed like any other."""

import asyncio
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.runtime.clock import Clock, SystemClock
from watchword.testing.credentials import ClusterCredentials, connect_by_certificate
from watchword.testing.errors import UnsupportedByPlane
from watchword.testing.plane import Stop
from watchword.testing.process import ChildProcess, await_ready, free_port

PROGRAM = ("-m", "watchword", "apiserver")


class SubprocessBackend:
    """`watchword apiserver` with its data in a folder."""

    name = "embedded"
    run_id = ""

    def __init__(self, folder: Path, *, token_webhook: Path | None = None) -> None:
        self.clock: Clock = SystemClock()
        self._data = folder / "data"
        self._log = folder / "apiserver.log"
        self._port = free_port()
        self._process: ChildProcess | None = None
        self.server = f"https://127.0.0.1:{self._port}"
        self._folder = folder
        self._flags = webhook_flags(token_webhook)

    @property
    def ca_pem(self) -> bytes:
        return (self._data / "pki" / "ca.crt").read_bytes()

    def connect(self, user: str, groups: Sequence[str]) -> Client:
        return connect_by_certificate(self.server, self.credentials(), user, groups)

    def kubeconfig_for(self, user: str, groups: Sequence[str]) -> Path:
        return self.credentials().kubeconfig(self.server, user, groups)

    @property
    def process(self) -> ChildProcess:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        command = [sys.executable, *PROGRAM, f"--data-dir={self._data}", f"--port={self._port}", *self._flags]
        self._process = ChildProcess(command, self._log)
        await_ready(self.server, lambda: ssl.create_default_context(cadata=self.ca_pem.decode()), self._process)

    def stop(self, *, kill: bool = False) -> None:
        if self._process is not None:
            self._process.kill() if kill else self._process.stop()
            self._process = None

    async def restart(self, *, kill: bool) -> None:
        await asyncio.to_thread(self.stop, kill=kill)
        await asyncio.to_thread(self.start)

    async def rotate_signing_key(self, *, keep_old: bool) -> None:  # noqa: ARG002 - refused either way
        raise UnsupportedByPlane("a process of its own keeps its signing key: leave out the mark real_time")

    async def start_controllers(self, names: Sequence[str]) -> Stop:  # noqa: ARG002 - they all run already
        return lambda: None

    def credentials(self) -> ClusterCredentials:
        keys = self._data / "pki"
        authority = Authority.from_pem((keys / "ca-1.crt").read_bytes(), (keys / "ca-1.key").read_bytes())
        return ClusterCredentials(self._folder, authority, self.clock)


def webhook_flags(kubeconfig: Path | None) -> list[str]:
    """Return the flag by which an API server finds its token webhook; none without one."""
    return [] if kubeconfig is None else [f"--authentication-token-webhook-config-file={kubeconfig}"]


@contextmanager
def open_subprocess(folder: Path, *, token_webhook: Path | None = None) -> Iterator[SubprocessBackend]:
    backend = SubprocessBackend(folder, token_webhook=token_webhook)
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()
