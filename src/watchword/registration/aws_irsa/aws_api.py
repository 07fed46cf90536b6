"""The narrow port to AWS: one operation at a time, paced so that AWS does not throttle."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

from msgspec import Struct, field

from watchword.api.rate_limit import Rate, TokenBucket
from watchword.kube.backoff import Backoff
from watchword.registration.aws_irsa.errors import AwsRefused, LibraryMissing

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
    _bucket: TokenBucket = field(default_factory=lambda: TokenBucket(Rate(REQUESTS_PER_SECOND)))

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
                self._set_rate(min(REQUESTS_PER_SECOND, self._bucket.rate.per_second + RECOVERY))
                return answer
            self._set_rate(max(SLOWEST, self._bucket.rate.per_second / 2))
            delay = BACKOFF.delay(failures, self.random)
            self._bucket.pause(asyncio.get_running_loop().time() + delay)  # all others wait, too
        await self._wait_for_turn()
        return await self.api.call(service, operation, **arguments)

    async def _wait_for_turn(self) -> None:
        await asyncio.sleep(self._bucket.reserve(asyncio.get_running_loop().time()))

    def _set_rate(self, per_second: float) -> None:
        self._bucket.rate = Rate(per_second)


AWS_LIBRARIES = ("boto3", "botocore")


def connect(region: str) -> AwsApi:
    """Return the connection by boto3; `LibraryMissing` where the extra is not installed."""
    try:
        from watchword.registration.aws_irsa.boto import BotoApi
    except ModuleNotFoundError as missing:
        if missing.name not in AWS_LIBRARIES:
            raise
        raise LibraryMissing("the AWS libraries are not installed: run pip install 'watchword[aws]'") from missing
    return BotoApi(region)


class LazyAwsApi(Struct):
    """Connects when it is first used."""

    region: str
    _api: AwsApi | None = None

    async def call(self, service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        self._api = self._api or connect(self.region)
        return await self._api.call(service, operation, **arguments)
