"""The narrow port to AWS: one operation at a time, paced so that AWS does not throttle."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

from msgspec import Struct

from watchword.kube.request_sender import Backoff
from watchword.registration.aws_irsa.errors import AwsRefused

THROTTLING = frozenset({"Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded"})
REQUESTS_PER_SECOND = 8.0
"""Below what IAM allows an account; IAM is one service for all programs in the account."""

SLOWEST = 0.5
RECOVERY = 0.02  # by how much the rate grows again with each answer
BACKOFF = Backoff(first=1.0, limit=20.0)
ATTEMPTS = 5


class AwsApi(Protocol):
    """Sends requests to AWS with one set of credentials."""

    async def call(self, service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Return the response; raise `AwsRefused`, `AwsUnreachable` or `LibraryMissing`."""
        ...


async def find(api: AwsApi, service: str, operation: str, **arguments: Any) -> Mapping[str, Any] | None:
    """Return what a read answers, None when there is no such thing."""
    try:
        return await api.call(service, operation, **arguments)
    except AwsRefused as refusal:
        if refusal.is_absence:
            return None
        raise


class PacedAwsApi(Struct):
    """Spaces the requests of all clusters, more widely after AWS throttled one, and repeats that one later."""

    api: AwsApi
    random: Random
    _rate: float = REQUESTS_PER_SECOND
    _next: float = 0.0

    async def call(self, service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Return the response as `AwsApi.call` does; throttling is raised only after several attempts."""
        for failures in range(1, ATTEMPTS):
            await self._wait_for_turn()
            try:
                answer = await self.api.call(service, operation, **arguments)
            except AwsRefused as refusal:
                if refusal.code not in THROTTLING:
                    raise
            else:
                self._rate = min(REQUESTS_PER_SECOND, self._rate + RECOVERY)
                return answer
            self._rate = max(SLOWEST, self._rate / 2)
            delay = BACKOFF.delay(failures, self.random)
            self._next = max(self._next, asyncio.get_running_loop().time() + delay)  # all others wait, too
        await self._wait_for_turn()
        return await self.api.call(service, operation, **arguments)

    async def _wait_for_turn(self) -> None:
        now = asyncio.get_running_loop().time()
        turn = max(now, self._next)
        self._next = turn + 1 / self._rate
        if turn > now:
            await asyncio.sleep(turn - now)
