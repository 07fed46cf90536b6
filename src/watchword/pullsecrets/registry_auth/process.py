"""The token service put together: what `watchword registry-auth` runs."""

import asyncio
import os
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct

from watchword.http.limits import ServerLimits
from watchword.http.server import HttpServer
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.pki.jwt import TokenSigner
from watchword.pullsecrets.registry_auth.token_service import TokenCounts, TokenService, TokenServiceOptions
from watchword.runtime.clock import Clock
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.metrics import Metrics

LIMITS = ServerLimits(connections=1024, header_bytes=64 * 1024, body_bytes=64 * 1024, request_seconds=10.0)


class RegistryAuthOptions(Struct, frozen=True):
    """Where the token service listens and what it signs with."""

    service: TokenServiceOptions
    serve: tuple[str, int]
    authority: Authority
    tls: ssl.SSLContext | None = None
    health: tuple[str, int] | None = None


async def run_registry_auth(
    client: Client,
    options: RegistryAuthOptions,
    *,
    clock: Clock,
    stop: asyncio.Event,
    started: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve registry tokens until asked to stop; `started` is told the port."""
    metrics = Metrics()
    signer = TokenSigner(options.authority.key, (options.authority.certificate.der,))
    service = TokenService(client, signer, clock, options.service, TokenCounts(metrics.registry))
    server = HttpServer(service.handle, LIMITS, context=options.tls)
    log: Any = structlog.get_logger("watchword.registry-auth")
    async with AsyncExitStack() as stack:
        if options.health is not None:
            await stack.enter_async_context(serve_health(HealthEndpoints(metrics.registry), *options.health))
        port = await server.start(*options.serve)
        stack.push_async_callback(server.stop)
        log.info("serving", host=options.serve[0], port=port, service=options.service.service)
        started(port)
        await stop.wait()


def load_signing_authority(key: Path, certificate: Path, *, now: datetime, create: bool = False) -> Authority:
    """Return the key and certificate that sign registry tokens; with `create`, make them when neither exists."""
    if create and not key.exists() and not certificate.exists():
        made = Authority.make("watchword-registry-auth", now=now)
        _write_private(key, made.key.pem.reveal())
        certificate.write_bytes(made.certificate.pem)
    return Authority.from_pem(certificate.read_bytes(), key.read_bytes())


def serving_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def _write_private(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
