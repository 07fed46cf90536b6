"""The two control planes, each in processes of its own, both paying for the disk."""

from __future__ import annotations

import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from watchword.testing.credentials import ADMIN, ADMIN_GROUPS, ClusterCredentials
from watchword.testing.kube_apiserver_backend import KubeControlPlane, find_assets
from watchword.testing.process import ChildProcess
from watchword.testing.subprocess_backend import SubprocessBackend

MIB = 1024 * 1024


@dataclass
class Server:
    """A running control plane, and what starting it cost."""

    name: str
    port: int
    trust: ssl.SSLContext
    processes: tuple[ChildProcess, ...]
    start_seconds: float
    data: Path  # the folder of everything that it stores
    credentials: ClusterCredentials

    @property
    def memory(self) -> float:
        """Resident MiB of all its processes."""
        return sum(resident(process.pid) for process in self.processes) / MIB

    @property
    def cpu(self) -> float:
        """Seconds of processor time that its processes have had so far."""
        return sum(processor_seconds(process.pid) for process in self.processes)

    @property
    def written(self) -> int:
        """Bytes that its processes have caused to be written to the disk so far."""
        return sum(written_bytes(process.pid) for process in self.processes)

    def kubeconfig(self, user: str, groups: Sequence[str]) -> Path:
        """Write a kubeconfig of a user."""
        return self.credentials.kubeconfig(f"https://127.0.0.1:{self.port}", user, groups)


def resident(pid: int) -> int:
    """Return the resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process's living threads."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def written_bytes(pid: int) -> int:
    """Return the bytes that a process has caused to be written to the disk."""
    lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))


@contextmanager
def embedded(folder: Path) -> Iterator[Server]:
    """Run `watchword apiserver` with fsync on every group of writes."""
    folder.mkdir()
    backend = SubprocessBackend(folder)
    begin = time.perf_counter()
    backend.start()
    spent = time.perf_counter() - begin
    try:
        credentials = backend.credentials()
        trust = _client(credentials, folder)
        processes = (backend.process,)
        yield Server("embedded", _port(backend.server), trust, processes, spent, folder / "data", credentials)
    finally:
        backend.stop()


@contextmanager
def real(folder: Path, controllers: Sequence[str] = ()) -> Iterator[Server]:
    """Run etcd, with fsync, and kube-apiserver; with these controllers of kube-controller-manager."""
    folder.mkdir()
    cluster = KubeControlPlane(find_assets(), folder, durable=True)
    begin = time.perf_counter()
    cluster.start()
    spent = time.perf_counter() - begin
    manager = [cluster.start_controllers(controllers)] if controllers else []
    try:
        trust = _client(cluster.credentials, folder)
        processes = (*cluster.processes, *manager)
        data = folder / "etcd"
        yield Server("kube-apiserver", _port(cluster.server), trust, processes, spent, data, cluster.credentials)
    finally:
        for process in manager:
            process.stop()
        cluster.stop()


@contextmanager
def echo(folder: Path) -> Iterator[Server]:
    """Run a TLS server that sends bodies back."""
    folder.mkdir()
    credentials = ClusterCredentials.make(folder)
    log = folder / "echo.log"
    process = ChildProcess([sys.executable, "-m", "bench.planes.echo", folder], log)
    try:
        while not (port := log.read_text(encoding="ascii").strip()):
            time.sleep(0.02)
        yield Server("echo", int(port), _client(credentials, folder), (process,), 0.0, folder, credentials)
    finally:
        process.stop()


def _client(credentials: ClusterCredentials, folder: Path) -> ssl.SSLContext:
    context = credentials.trust()
    held = credentials.client_certificate(ADMIN, ADMIN_GROUPS)
    path = folder / "bench.pem"
    path.touch(0o600)
    path.write_bytes(held.chain + held.key.reveal())
    (folder / "bench-ca.pem").write_bytes(credentials.ca_pem)
    context.load_cert_chain(path)
    return context


def _port(server: str) -> int:
    port = urlsplit(server).port
    assert port is not None
    return port
