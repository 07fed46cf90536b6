"""A TLS server on loopback that answers as told and remembers everything it was shown."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from watchword._http.server import web
from watchword.api.http import Peer, Request, Response
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames

HOSTS = AlternativeNames(("localhost",), ("127.0.0.1",))


@dataclass
class LoopbackServer:
    """Where it listens and what it has heard; `peer` holds the client's certificate, if it showed one."""

    port: int = 0
    heard: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its https address."""
        return f"https://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(
    handle: Callable[[Request], Awaitable[Response]],
    authority: Authority,
    folder: Path,
    *,
    newest_tls: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> AsyncIterator[LoopbackServer]:
    """Serve a handler with a certificate of the authority until the context is left."""
    server = LoopbackServer()

    async def answer(raw: web.BaseRequest) -> web.StreamResponse:
        request = await _read(raw)
        server.heard.append(request)
        response = await handle(request)
        return web.Response(status=response.status, headers=dict(response.headers), body=response.body)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=_context(authority, folder, newest_tls))
        await site.start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()


async def _read(raw: web.BaseRequest) -> Request:
    tls = raw.transport.get_extra_info("ssl_object") if raw.transport else None
    shown = tls.getpeercert(binary_form=True) if tls is not None else None
    return Request(
        raw.method,
        raw.path,
        query=tuple(raw.query.items()),
        headers=tuple(raw.headers.items()),
        body=await raw.read(),
        peer=Peer("127.0.0.1", (shown,) if shown else ()),
    )


def _context(authority: Authority, folder: Path, newest_tls: ssl.TLSVersion) -> ssl.SSLContext:
    key = PrivateKey.generate()
    certificate = authority.issue_serving(key.public, HOSTS, now=datetime.now(UTC), lifetime=timedelta(hours=1))
    path = folder / f"serving-{certificate.serial}.pem"
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
