"""Whether a process is alive and ready, and its metrics, for whoever watches over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from watchword._http.server import web

Check: TypeAlias = Callable[[], str]
"""Returns what is wrong in a few words, and nothing when all is well."""

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of the health endpoints."""

    status: int
    content_type: str
    body: bytes


@dataclass(slots=True)
class Health:
    """Answers `/healthz`, `/readyz` and `/metrics` from the checks that others have added."""

    registry: CollectorRegistry
    liveness: dict[str, Check] = field(default_factory=dict)
    readiness: dict[str, Check] = field(default_factory=dict)

    def answer(self, path: str) -> Page:
        """Return the page for a path."""
        if path == "/metrics":
            return Page(200, CONTENT_TYPE_LATEST, generate_latest(self.registry))
        if path in ("/healthz", "/livez"):
            return _verdict(self.liveness)
        if path == "/readyz":
            return _verdict({**self.liveness, **self.readiness})
        return Page(404, TEXT, b"try /healthz, /readyz or /metrics\n")


@asynccontextmanager
async def serve_health(health: Health, host: str, port: int) -> AsyncIterator[int]:
    """Serve the endpoints on an address; gives the port, which the system chose if it was 0."""
    from watchword._http.server import web  # noqa: PLC0415 - half a second of start-up that only servers pay

    async def handle(request: web.Request) -> web.Response:
        page = health.answer(request.path)
        return web.Response(status=page.status, body=page.body, headers={"Content-Type": page.content_type})

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _verdict(checks: dict[str, Check]) -> Page:
    troubles = {name: trouble for name, check in sorted(checks.items()) if (trouble := _ask(check))}
    lines = [f"[-] {name}: {troubles[name]}" if name in troubles else f"[+] {name}" for name in sorted(checks)]
    return Page(503 if troubles else 200, TEXT, "\n".join([*lines, "not ok" if troubles else "ok", ""]).encode())


def _ask(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a check that breaks has found something
        return f"the check failed ({type(error).__name__})"
