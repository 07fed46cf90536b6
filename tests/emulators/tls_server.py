"""A TLS server, on loopback unless told otherwise, that answers as told and remembers everything it was shown."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from watchword.api.http import Request, Response
from watchword.http.limits import ServerLimits
from watchword.http.server import HttpServer
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames

LOOPBACK = "127.0.0.1"


@dataclass
class TlsServer:
    """Where it listens and what it has heard; `peer` holds the client's certificate, if it showed one."""

    port: int = 0
    heard: list[Request] = field(default_factory=list)
    host: str = LOOPBACK

    @property
    def url(self) -> str:
        """Its https address."""
        return f"https://{self.host}:{self.port}"


@asynccontextmanager
async def serve_tls(
    handle: Callable[[Request], Awaitable[Response]],
    authority: Authority,
    folder: Path,
    *,
    newest_tls: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    host: str = LOOPBACK,
) -> AsyncIterator[TlsServer]:
    """Serve a handler with a certificate of the authority until the context is left."""
    server = TlsServer(host=host)
    names = AlternativeNames(("localhost",), (host,))

    async def answer(request: Request) -> Response:
        server.heard.append(request)
        return await handle(request)

    context = _context(authority, names, folder, newest_tls)
    listener = HttpServer(answer, ServerLimits(drain_seconds=0.1), context=context)
    server.port = await listener.start(host, 0)
    try:
        yield server
    finally:
        await listener.stop()


def _context(authority: Authority, names: AlternativeNames, folder: Path, newest_tls: ssl.TLSVersion) -> ssl.SSLContext:
    key = PrivateKey.generate()
    certificate = authority.issue_serving(key.public, names, now=datetime.now(UTC), lifetime=timedelta(hours=1))
    path = folder / f"serve_tls-{certificate.serial}.pem"
    path.touch(0o600)
    path.write_bytes(certificate.pem + key.pem.reveal())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if newest_tls < ssl.TLSVersion.TLSv1_2:
        context.set_ciphers("ALL:@SECLEVEL=0")  # old versions are offered only when they are
    context.load_cert_chain(path)
    context.minimum_version = min(newest_tls, ssl.TLSVersion.TLSv1_2)
    context.maximum_version = newest_tls
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.certificate.pem.decode())
    return context
