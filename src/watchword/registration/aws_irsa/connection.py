"""Connects to AWS on the first request: processes that never ask AWS neither import nor need its libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from watchword.registration.aws_irsa.aws_api import AwsApi
from watchword.registration.aws_irsa.errors import LibraryMissing

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
        """Return the response as `AwsApi.call` does."""
        self._api = self._api or connect(self.region)
        return await self._api.call(service, operation, **arguments)
