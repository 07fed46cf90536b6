"""Serves health checks, readiness and metrics of a process."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeAlias

from msgspec import Struct, field

from watchword.api.http import Request, Response
from watchword.http.limits import ServerLimits
from watchword.http.server import HttpServer
from watchword.runtime.prometheus import CONTENT_TYPE, CollectorRegistry

HealthCheck: TypeAlias = Callable[[], str]
"""Returns what is wrong in a few words, and an empty string when the check passes."""

TEXT = "text/plain; charset=utf-8"
LIMITS = ServerLimits(connections=64, header_bytes=16 * 1024, body_bytes=0, keepalive_seconds=90.0, drain_seconds=1.0)


class HealthEndpoints(Struct):
    """Serves `/healthz`, `/readyz` and `/metrics` from the registered checks."""

    registry: CollectorRegistry
    readiness: dict[str, HealthCheck] = field(default_factory=dict)

    def answer(self, path: str, names: Collection[str] = ()) -> Response:
        """Return the page for a path; of the metrics those that are named, or all."""
        if path == "/metrics":
            return _page(200, self.registry.exposition(names), CONTENT_TYPE)
        if path in ("/healthz", "/livez"):
            return _checks_page({})  # a process that answers is alive
        if path == "/readyz":
            return _checks_page(self.readiness)
        return _page(404, b"try /healthz, /readyz or /metrics\n")


@asynccontextmanager
async def serve_health(health: HealthEndpoints, host: str, port: int) -> AsyncIterator[int]:
    """Serve the endpoints on an address; yields the port, which the system chooses when it is 0."""

    async def handle(request: Request) -> Response:
        return health.answer(request.path, [value for key, value in request.query if key == "name[]"])

    listener = HttpServer(handle, LIMITS)
    found = await listener.start(host, port)
    try:
        yield found
    finally:
        await listener.stop()


def _checks_page(checks: dict[str, HealthCheck]) -> Response:
    problems = {name: problem for name, check in sorted(checks.items()) if (problem := _run_check(check))}
    lines = [f"[-] {name}: {problems[name]}" if name in problems else f"[+] {name}" for name in sorted(checks)]
    return _page(503 if problems else 200, "\n".join([*lines, "not ok" if problems else "ok", ""]).encode())


def _page(status: int, body: bytes, content_type: str = TEXT) -> Response:
    return Response(status, (("Content-Type", content_type),), body)


def _run_check(check: HealthCheck) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a check that breaks has found something
        return f"the check failed ({type(error).__name__})"
