"""How long an administrator waits while an unauthenticated client abuses HTTP/2 and slow HTTP against every port."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from bench.reliability.attacks import ATTACKS
from bench.reliability.figure import Figure, markdown_table
from watchword.api.meta import ObjectKey
from watchword.api.names import GRPC_SIGNER
from watchword.api.resources import NAMESPACES, SERVICE_ACCOUNTS
from watchword.kube.errors import ApiStatusError, KubeError
from watchword.kube.tokens import request_token
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames
from watchword.registration.grpc.client.channel import EventChannel, GrpcCredential
from watchword.registration.grpc.cloud_events import CloudEvent
from watchword.registration.grpc.config import GrpcEndpoint
from watchword.registration.hub import installation
from watchword.runtime.event_loop import new_loop
from watchword.testing.plane import Plane
from watchword.testing.process import ChildProcess, free_port
from watchword.testing.subprocess_backend import open_subprocess

LIMIT = 1.0
PROBE_EVERY = 0.1
PATIENCE = 30.0

Ask = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Target:
    """One port, and what the administrator asks there."""

    name: str
    port: int
    ask: Ask
    kind: str = "http"  # or https, or h2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each attack runs")
    parser.add_argument("--port", default="", help="the name of one port, such as 'gRPC server'; all without it")
    parser.add_argument("--connections", type=int, default=50, help="of the attacker, at a time")


def measure(options: argparse.Namespace) -> Figure:
    """Return the administrator's longest wait during each attack."""
    with (
        tempfile.TemporaryDirectory(prefix="watchword-bar-") as folder,
        open_subprocess(Path(folder)) as backend,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        rows = runner.run(_measure(Plane(backend, private=True), Path(folder), options))
    longest = max(rows, key=lambda row: row[2])
    table = markdown_table(("port", "attack", "longest wait"), [(*row[:2], f"{row[2]:.2f} s") for row in rows])
    line = f"an administrator waited at most {longest[2]:.2f} s, at {longest[0]} ({longest[1]}; bar: {LIMIT:g} s)"
    return Figure(line, longest[2] <= LIMIT, table)


async def _measure(plane: Plane, folder: Path, options: argparse.Namespace) -> list[tuple[str, str, float]]:
    rows = []
    try:
        async with _targets(plane, folder) as targets:
            for target in [each for each in targets if options.port in ("", each.name)]:
                quiet = await _longest_wait(target.ask, asyncio.sleep(min(options.seconds, 2.0)))
                rows.append((target.name, "none", quiet))
                for name in ATTACKS[target.kind]:
                    rows.append((target.name, name, await _attacked(target, name, folder, options)))
                    print(f"{target.name}, {name}: {rows[-1][2]:.2f} s", file=sys.stderr)
    finally:
        await plane.close()
    return rows


async def _attacked(target: Target, attack: str, folder: Path, options: argparse.Namespace) -> float:
    """Ask while an attacker in a process of its own abuses the port."""
    command = [sys.executable, "-m", "bench.reliability.attacks", str(target.port), target.kind, attack]
    attacker = ChildProcess([*command, str(options.connections)], folder / "attacker.log")
    try:
        await asyncio.sleep(1.0)  # it starts
        return await _longest_wait(target.ask, asyncio.sleep(options.seconds))
    finally:
        attacker.kill()


async def _longest_wait(ask: Ask, until: Coroutine[None, None, None]) -> float:
    """Ask now and then, and return how long the slowest answer took; no answer counts as the patience."""
    ended, longest = asyncio.create_task(until), 0.0
    while not ended.done():
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                await ask()
            longest = max(longest, time.monotonic() - began)
        except (OSError, TimeoutError, KubeError):
            longest = PATIENCE
        await asyncio.sleep(PROBE_EVERY)
    return longest


@asynccontextmanager
async def _targets(plane: Plane, folder: Path) -> AsyncIterator[list[Target]]:
    """Start a server for each port that unauthenticated clients may reach."""
    await installation.install(plane.client())
    authority = Authority.make(GRPC_SIGNER, now=plane.clock.now())
    _write_grpc_files(folder, authority, plane)
    grpc, registry, dashboard, health = (free_port() for _ in range(4))
    grpc_flags = [f"--serve=127.0.0.1:{grpc}", f"--listen=127.0.0.1:{health}"]
    grpc_flags += [f"--tls-cert-file={folder}/tls.crt", f"--tls-key-file={folder}/tls.key"]
    keys = [f"--signing-key={folder}/registry.key", f"--signing-certificate={folder}/registry.crt"]
    commands = {
        "grpc-server": [*grpc_flags, f"--client-ca-file={folder}/ca.crt"],
        "registry-auth": ["--service=registry", *keys, "--create-signing-key", f"--serve=127.0.0.1:{registry}"],
        "dashboard": [f"--serve=127.0.0.1:{dashboard}"],
    }
    common = [f"--kubeconfig={plane.kubeconfig}"]
    processes = [
        ChildProcess([sys.executable, "-m", "watchword", verb, *flags, *common], folder / f"{verb}.log")
        for verb, flags in commands.items()
    ]
    ports = {"registry-auth": registry, "dashboard": dashboard, "health port": health}
    try:
        api = plane.client()
        token = (await request_token(api, await _account(plane), expiration_seconds=3600)).token
        endpoint = GrpcEndpoint(url=f"localhost:{grpc}", ca_data=authority.certificate.pem)
        for port in (grpc, *ports.values()):
            await _await_port(port)
        server = int(plane.server.rpartition(":")[2])
        yield [
            Target("API server", server, lambda: api.list(NAMESPACES), "https"),
            Target("gRPC server", grpc, lambda: _ask_grpc(endpoint, GrpcCredential(token=token)), "h2"),
            *(Target(name, port, partial(_ask_http, port)) for name, port in ports.items()),
        ]
    finally:
        for process in processes:
            process.stop()


def _write_grpc_files(folder: Path, authority: Authority, plane: Plane) -> None:
    key, names = PrivateKey.generate(), AlternativeNames(("localhost",), ("127.0.0.1",))
    issued = authority.issue_serving(key.public, names, now=plane.clock.now(), lifetime=timedelta(days=1))
    (folder / "tls.key").touch(0o600)
    (folder / "tls.key").write_bytes(key.pem.reveal())
    (folder / "tls.crt").write_bytes(issued.pem)
    (folder / "ca.crt").write_bytes(authority.certificate.pem)


async def _account(plane: Plane) -> ObjectKey:
    key = ObjectKey("default", "administrator")
    await plane.client().create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key))
    return key


async def _await_port(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)


async def _ask_grpc(endpoint: GrpcEndpoint, credential: GrpcCredential) -> None:
    """Connect and send an event, which is authenticated and then refused, because its type is unknown."""
    channel = EventChannel(endpoint, credential, cluster="edge")
    with contextlib.suppress(ApiStatusError):
        await channel.publish(CloudEvent(id="1", source="edge-agent", type="unknown"))
    channel.close()


async def _ask_http(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.readline()
    writer.close()
    if not answer.startswith(b"HTTP/1.1 "):
        raise ConnectionError("no answer")
