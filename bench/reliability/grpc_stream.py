"""An open stream of one cluster at a gRPC server of the hub."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from watchword.api.names import GRPC_SIGNER, MANAGED_CLUSTERS_GROUP, agent_user, cluster_group
from watchword.kube.tls import ClientCertificate
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.registration.grpc.client.channel import EventChannel, GrpcCredential
from watchword.registration.grpc.cloud_events import DataType
from watchword.registration.grpc.config import GrpcEndpoint
from watchword.registration.grpc.server.listener import TlsFiles
from watchword.registration.grpc.server.process import GrpcServerOptions, run_grpc_server
from watchword.testing.plane import Plane

A_DAY = timedelta(days=1)


@asynccontextmanager
async def open_grpc_stream(plane: Plane, cluster: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Open a stream with a certificate of the cluster; yields a request that raises the error with which it ended."""
    authority = Authority.make(GRPC_SIGNER, now=plane.clock.now())
    with tempfile.TemporaryDirectory(prefix="watchword-grpc-") as folder:
        files = _write_files(Path(folder), authority, plane)
        stop, started = asyncio.Event(), asyncio.get_running_loop().create_future()
        options = GrpcServerOptions(serve=("127.0.0.1", 0), tls=files)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_grpc_server(plane.fresh_client(), options, clock=plane.clock, stop=stop, started=started.set_result)
            )
            endpoint = GrpcEndpoint(url=f"localhost:{await started}", ca_data=authority.certificate.pem)
            channel = EventChannel(endpoint, _credential(authority, cluster, plane), cluster=cluster)
            opened = asyncio.Event()
            reading = asyncio.create_task(_read(channel, opened))
            await asyncio.wait({reading, asyncio.create_task(opened.wait())}, return_when=asyncio.FIRST_COMPLETED)

            async def ask() -> None:
                if reading.done():
                    reading.result()

            try:
                yield ask
            finally:
                reading.cancel()
                await asyncio.wait({reading})
                channel.close()
                stop.set()


async def _read(channel: EventChannel, opened: asyncio.Event) -> None:
    async with channel.subscribe(DataType.LEASE) as subscription:
        opened.set()
        async for _ in subscription.events:
            continue


def _credential(authority: Authority, cluster: str, plane: Plane) -> GrpcCredential:
    key = PrivateKey.generate()
    subject = CertificateSubject(agent_user(cluster, "bar"), (cluster_group(cluster), MANAGED_CLUSTERS_GROUP))
    leaf = authority.issue_client(key.public, subject, now=plane.clock.now(), lifetime=A_DAY)
    return GrpcCredential(certificate=ClientCertificate(leaf.pem, key.pem))


def _write_files(folder: Path, authority: Authority, plane: Plane) -> TlsFiles:
    key, names = PrivateKey.generate(), AlternativeNames(("localhost",), ("127.0.0.1",))
    leaf = authority.issue_serving(key.public, names, now=plane.clock.now(), lifetime=A_DAY)
    files = TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    files.key.touch(0o600)
    files.key.write_bytes(key.pem.reveal())
    files.certificate.write_bytes(leaf.pem)
    files.client_roots.write_bytes(authority.certificate.pem)
    return files
