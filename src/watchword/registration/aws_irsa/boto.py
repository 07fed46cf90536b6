"""Everything that needs boto3: requests to AWS, and the token by which an IAM role proves itself to an EKS cluster."""

import asyncio
import base64
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import boto3
import botocore.session
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from msgspec import Struct, field

from watchword.api.sensitive import Sensitive
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
        """Return the response, with the credentials that `aws` would use; raises `AwsRefused` or `AwsUnreachable`."""
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
        return boto3.Session(region_name=self.region).client(service, config=_CONFIG, **self.client_options)


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


PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
SESSION = "EKSGetTokenAuth"
SIGNED_SECONDS = 60
LIFETIME = timedelta(minutes=14)  # EKS accepts a token for 15 minutes after it was signed
_SIGNING_CONFIG = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard"})


class EksToken(Struct, frozen=True):
    """A token and when to sign another."""

    token: Sensitive[str]
    expires_at: datetime


def sign_eks_token(region: str, cluster: str, role_arn: str, *, now: datetime) -> EksToken:
    """Return a token for a cluster, in the name of a role or of the caller; raises `AwsRefused` or `AwsUnreachable`."""
    try:
        session = botocore.session.get_session()
        sts = session.create_client("sts", region_name=region, config=_SIGNING_CONFIG)
        if role_arn:
            found = sts.assume_role(RoleArn=role_arn, RoleSessionName=SESSION)["Credentials"]
            credentials = ReadOnlyCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        else:
            credentials = session.get_credentials().get_frozen_credentials()
    except ClientError as error:
        code = str(error.response["Error"]["Code"])
        raise AwsRefused(
            f"AWS refused {error.operation_name} of role {role_arn or 'the caller'} with {code}: "
            "check that the hub accepted this cluster, and that the role of the agent may assume that role",
            code=code,
        ) from error
    except (BotoCoreError, AttributeError) as error:  # a session without credentials has None
        raise AwsUnreachable(
            f"no AWS credentials can be used ({type(error).__name__}): check AWS_ROLE_ARN, "
            "AWS_WEB_IDENTITY_TOKEN_FILE and the annotation eks.amazonaws.com/role-arn of the agent's ServiceAccount"
        ) from error
    return EksToken(_sign(sts.meta.endpoint_url, region, cluster, credentials), now + LIFETIME)


def _sign(endpoint: str, region: str, cluster: str, credentials: ReadOnlyCredentials) -> Sensitive[str]:
    url = f"{endpoint.rstrip('/')}/?Action=GetCallerIdentity&Version=2011-06-15"
    request = AWSRequest(method="GET", url=url, headers={CLUSTER_HEADER: cluster})
    SigV4QueryAuth(credentials, "sts", region, expires=SIGNED_SECONDS).add_auth(request)
    return Sensitive(PREFIX + base64.urlsafe_b64encode(request.url.encode()).decode().rstrip("="))
