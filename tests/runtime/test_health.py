from __future__ import annotations

import asyncio

import aiohttp
import pytest

from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.prometheus import CollectorRegistry


@pytest.fixture
def health() -> HealthEndpoints:
    registry = CollectorRegistry()
    registry.gauge("answer", "Of everything").labels().set(42)
    return HealthEndpoints(registry)


def broken() -> str:
    raise ZeroDivisionError


def test_healthy_process_is_live_and_ready(health: HealthEndpoints) -> None:
    health.readiness["cache"] = str

    assert (health.answer("/healthz").status, health.answer("/readyz").status) == (200, 200)


def test_failed_readiness_check_does_not_affect_liveness(health: HealthEndpoints) -> None:
    health.readiness["cache"] = lambda: "not synced"

    assert (health.answer("/healthz").status, health.answer("/readyz").status) == (200, 503)
    assert b"cache: not synced" in health.answer("/readyz").body


def test_check_that_breaks_has_found_something(health: HealthEndpoints) -> None:
    health.readiness["loop"] = broken

    assert health.answer("/readyz").status == 503


@pytest.mark.real_time
async def test_the_endpoints_are_served(health: HealthEndpoints) -> None:
    async with serve_health(health, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        answers = {}
        for path in ("healthz", "readyz", "metrics", "elsewhere", "metrics?name[]=other"):
            async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                answers[path] = (response.status, await response.text())

    assert [answers[path][0] for path in answers] == [200, 200, 200, 404, 200]
    assert "answer 42.0" in answers["metrics"][1]
    assert "answer" not in answers["metrics?name[]=other"][1]


@pytest.mark.real_time
async def test_head_request_keeps_later_responses_in_order(health: HealthEndpoints) -> None:
    async with serve_health(health, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        async with session.head(f"http://127.0.0.1:{port}/metrics") as response:
            length = int(response.headers["Content-Length"])
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            body = await response.read()

    assert len(body) == length > 0


@pytest.mark.real_time
async def test_idle_connections_do_not_keep_probes_out(health: HealthEndpoints) -> None:
    async with serve_health(health, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
        idle = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(200)]

        async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == 200
        for writer in idle:
            writer.close()
