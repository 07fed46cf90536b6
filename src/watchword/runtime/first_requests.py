"""Makes the first requests of a process once its API server can be reached, with the health port open meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any, TypeVar

import structlog

from watchword.kube.backoff import Backoff
from watchword.kube.errors import Unreachable, Untrusted
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.metrics import Metrics

BACKOFF = Backoff(first=1.0, limit=30.0)
T = TypeVar("T")


class FirstRequests:
    """Waits for the API server and says so: in the log, and at the health port, where readiness fails until then."""

    def __init__(self, random: Random, metrics: Metrics, health: tuple[str, int] | None = None) -> None:
        self._random, self._metrics, self._health = random, metrics, health
        self._problem = "not reached yet"
        self._log: Any = structlog.get_logger("watchword.start")

    async def run(self, requests: Callable[[], Awaitable[T]]) -> T:
        """Return what the requests return; raises `KubeError` when they are refused, and `Untrusted` at once."""
        endpoints = HealthEndpoints(self._metrics.registry, readiness={"api server": lambda: self._problem})
        async with AsyncExitStack() as stack:
            if self._health is not None:
                await stack.enter_async_context(serve_health(endpoints, *self._health))
            failures = 0
            while True:
                try:
                    return await requests()
                except Untrusted:
                    raise  # waiting does not change a certificate
                except Unreachable as error:
                    failures += 1
                    self._problem = str(error)
                    pause = BACKOFF.delay(failures, self._random)
                    self._log.warning(
                        "waiting for the API server", error=self._problem, next_attempt_in=f"{pause:.0f}s"
                    )
                    await asyncio.sleep(pause)
