"""A real TLS server on loopback, for what only sockets can show."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest
from aiohttp import web

from watchword.http.server import AlertingSslObject
from watchword.kube.endpoint import Endpoint
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
DAY = timedelta(days=1)


@pytest.fixture
def authority() -> Authority:
    return Authority.make("test-ca", now=datetime.now(UTC) - 30 * DAY)


@pytest.fixture
async def serve(authority: Authority, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Endpoint]]]:
    """Start servers that respond by one function; `issued` and `hosts` define their certificate."""
    runners: list[web.AppRunner] = []

    async def start(
        handler: Handler,
        *,
        issued: datetime | None = None,
        hosts: tuple[str, ...] = ("127.0.0.1",),
        ask: bool = False,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> Endpoint:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        context = serving_context(authority, tmp_path, issued or datetime.now(UTC), hosts)
        context.maximum_version = version
        if ask:
            context.sslobject_class = AlertingSslObject
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=authority.certificate.pem.decode())
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        return Endpoint(f"https://127.0.0.1:{runner.addresses[0][1]}", authority.certificate.pem)

    yield start
    for runner in runners:
        await runner.cleanup()


def serving_context(authority: Authority, folder: Path, issued: datetime, hosts: tuple[str, ...]) -> ssl.SSLContext:
    key = PrivateKey.generate()
    names = AlternativeNames.for_hosts(hosts)
    certificate = authority.issue_serving(key.public, names, now=issued, lifetime=DAY)
    (folder / "server.pem").write_bytes(certificate.pem + key.pem.reveal())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context
