"""Sends requests to AWS by boto3: the one module that imports it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from msgspec import Struct, field

from watchword.registration.aws_irsa.errors import AwsRefused, AwsUnreachable

NEXT_STEPS = {
    "AccessDenied": "use AWS credentials that are allowed to do this",
    "AccessDeniedException": "use AWS credentials that are allowed to do this",
    "EntityAlreadyExists": "run the command again, which repairs the role that was created meanwhile",
    "ExpiredToken": "get new AWS credentials",
    "InvalidClientTokenId": "check AWS_PROFILE and the AWS credentials",
    "LimitExceeded": "raise the quota of the account, or delete what it does not need",
    "MalformedPolicyDocument": "check that the role which the trust policy names exists",
    "ResourceNotFoundException": "check the ARN of the hub",
    "SignatureDoesNotMatch": "check AWS_PROFILE and the AWS credentials",
    "Throttling": "run the command again in a minute",
}
"""Error code → what to do. The messages of AWS are not shown: that of a wrong signature may quote the session token."""

_CONFIG = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard"})


class BotoApi(Struct):
    """Runs each request in a thread, because boto3 blocks; makes the clients of a service once."""

    region: str
    client_options: Mapping[str, Any] = field(default_factory=dict)  # of boto3, such as another endpoint
    _clients: dict[str, Any] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(self, service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Return the response, with the credentials that the `aws` command would use; the region names the partition.

        Raises `AwsRefused` or `AwsUnreachable`.
        """
        try:
            client = await self._client(service)
            response: Mapping[str, Any] = await asyncio.to_thread(getattr(client, operation), **arguments)
        except ClientError as error:
            raise _refused(error, arguments.get("RoleName", "")) from error
        except BotoCoreError as error:
            raise _unanswered(error) from error
        return response

    async def _client(self, service: str) -> Any:
        async with self._lock:  # sessions of boto3 are not safe to share between threads
            if service not in self._clients:
                self._clients[service] = await asyncio.to_thread(self._make_client, service)
            return self._clients[service]

    def _make_client(self, service: str) -> Any:
        session = boto3.Session(region_name=self.region)
        return session.client(service, config=_CONFIG, **self.client_options)


def _refused(error: ClientError, role: str) -> AwsRefused:
    code = str(error.response["Error"]["Code"])
    about = f" of role {role}" if role else ""
    step = NEXT_STEPS.get(code, "look the error code up in the API reference of AWS")
    return AwsRefused(f"AWS refused {error.operation_name}{about} with {code}: {step}", code=code)


def _unanswered(error: BotoCoreError) -> AwsUnreachable:
    if isinstance(error, NoCredentialsError):
        return AwsUnreachable("there are no AWS credentials: set AWS_PROFILE, or run `aws configure`")
    return AwsUnreachable(
        f"AWS cannot be asked ({type(error).__name__}): check the network, AWS_PROFILE and AWS_REGION"
    )
