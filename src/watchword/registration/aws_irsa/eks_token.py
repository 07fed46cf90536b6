"""Signs the token by which an IAM role proves itself to an EKS cluster; needs the extra `aws`."""

import base64
from datetime import datetime, timedelta

import botocore.session
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError
from msgspec import Struct

from watchword.api.sensitive import Sensitive
from watchword.registration.aws_irsa.errors import AwsRefused, AwsUnreachable

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
SESSION = "EKSGetTokenAuth"
SIGNED_SECONDS = 60
LIFETIME = timedelta(minutes=14)  # EKS accepts a token for 15 minutes after it was signed
_CONFIG = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard"})


class EksToken(Struct, frozen=True):
    """A token and when to sign another."""

    token: Sensitive[str]
    expires_at: datetime


def sign_eks_token(region: str, cluster: str, role_arn: str, *, now: datetime) -> EksToken:
    """Return a token for a cluster, in the name of a role when one is given, else of the caller.

    Credentials are found as the `aws` command finds them. Raises `AwsRefused` or `AwsUnreachable`.
    """
    try:
        session = botocore.session.get_session()
        sts = session.create_client("sts", region_name=region, config=_CONFIG)
        credentials = _assume(sts, role_arn) if role_arn else session.get_credentials().get_frozen_credentials()
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


def _assume(sts: object, role_arn: str) -> ReadOnlyCredentials:
    found = sts.assume_role(RoleArn=role_arn, RoleSessionName=SESSION)["Credentials"]  # type: ignore[attr-defined]  # boto's own
    return ReadOnlyCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


def _sign(endpoint: str, region: str, cluster: str, credentials: ReadOnlyCredentials) -> Sensitive[str]:
    url = f"{endpoint.rstrip('/')}/?Action=GetCallerIdentity&Version=2011-06-15"
    request = AWSRequest(method="GET", url=url, headers={CLUSTER_HEADER: cluster})
    SigV4QueryAuth(credentials, "sts", region, expires=SIGNED_SECONDS).add_auth(request)
    return Sensitive(PREFIX + base64.urlsafe_b64encode(request.url.encode()).decode().rstrip("="))
