"""Applies what the hub's controllers need, as soon as its API server can be reached."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random
from typing import Any

from watchword._structlog import structlog
from watchword.hub import prerequisites
from watchword.hub.agent_token_policy import install_agent_token_policy
from watchword.kube.client import Client
from watchword.kube.errors import Unreachable, Untrusted
from watchword.kube.retry import Backoff
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.metrics import Metrics

BACKOFF = Backoff(first=1.0, limit=30.0)


class HubInstaller:
    """Waits for the API server and says so: in the log, and at the health port, which answers meanwhile."""

    def __init__(self, client: Client, random: Random) -> None:
        self._client = client
        self._random = random
        self._trouble = "not reached yet"
        self._log: Any = structlog.get_logger("watchword.hub")

    async def install(self, health: tuple[str, int] | None, metrics: Metrics) -> None:
        """Apply everything; raises `KubeError` when that is refused, and `Untrusted` at once."""
        endpoints = HealthEndpoints(metrics.registry, readiness={"api server": lambda: self._trouble})
        async with AsyncExitStack() as stack:
            if health is not None:
                await stack.enter_async_context(serve_health(endpoints, *health))
            await self._until_reached()

    async def _until_reached(self) -> None:
        failures = 0
        while True:
            try:
                await prerequisites.install(self._client)
                await install_agent_token_policy(self._client)
            except Untrusted:
                raise  # waiting does not change a certificate
            except Unreachable as error:
                failures += 1
                self._trouble = str(error)
                pause = BACKOFF.delay(failures, self._random)
                self._log.warning("waiting for the API server", error=self._trouble, next_attempt_in=f"{pause:.0f}s")
                await asyncio.sleep(pause)
            else:
                return
