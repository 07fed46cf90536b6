"""The AWS emulator verifies signatures, evaluates policies and keeps access entries as AWS does."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import pytest_asyncio
from msgspec.structs import replace

from watchword.api.meta import Object
from watchword.api.sensitive import Sensitive

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'watchword[aws]'")
pytest.importorskip("moto", reason="moto is not installed: pip install 'watchword[aws-emulator]'")

from botocore.config import Config  # noqa: E402 - after the check that it is installed
from botocore.exceptions import ClientError  # noqa: E402
from tests.emulators.aws import AwsEmulator, EksCluster  # noqa: E402
from tests.emulators.aws.errors import AwsFault  # noqa: E402
from tests.emulators.aws.principals import AccessKey  # noqa: E402

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]

HUB_ACCOUNT, EDGE_ACCOUNT = "111122223333", "444455556666"
HUB = f"arn:aws:eks:us-west-2:{HUB_ACCOUNT}:cluster/hub"
HUB_ROLE = f"arn:aws:iam::{HUB_ACCOUNT}:role/ocm-hub-edge"
EDGE_ROLE = f"arn:aws:iam::{EDGE_ACCOUNT}:role/ocm-managed-cluster-edge"
TAG = {"managed_cluster_name": "edge"}


class MovableClock:
    """The system's time plus what a test adds."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset


@pytest_asyncio.fixture
async def aws() -> AsyncIterator[AwsEmulator]:
    async with AwsEmulator(MovableClock()) as running:
        yield running


def client(aws: AwsEmulator, service: str, key: AccessKey) -> Any:
    return boto3.client(
        service,
        region_name="us-west-2",
        endpoint_url=aws.endpoint_url,
        aws_access_key_id=key.id,
        aws_secret_access_key=key.secret.reveal(),
        aws_session_token=key.session_token.reveal() or None,
        config=Config(retries={"total_max_attempts": 1}),
    )


async def call(operation: Callable[..., Any], **arguments: Any) -> Any:
    return await asyncio.to_thread(operation, **arguments)


async def refusal(operation: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        await call(operation, **arguments)
    return str(caught.value.response["Error"]["Code"])


def policy(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


def trusts(principal: str, tags: dict[str, str]) -> str:
    wanted = {f"aws:PrincipalTag/{key}": value for key, value in tags.items()}
    return policy(Principal={"AWS": principal}, Action="sts:AssumeRole", Condition={"StringEquals": wanted})


async def create_role(aws: AwsEmulator, arn: str, trust: str, **tags: str) -> None:
    iam = client(aws, "iam", aws.administrator(arn.split(":")[4]))
    rows = [{"Key": key, "Value": value} for key, value in tags.items()]
    await call(iam.create_role, RoleName=arn.rpartition("/")[2], AssumeRolePolicyDocument=trust, Tags=rows)


async def allow(aws: AwsEmulator, arn: str, document: str) -> None:
    iam, name = client(aws, "iam", aws.administrator(arn.split(":")[4])), arn.rpartition("/")[2]
    await call(iam.put_role_policy, RoleName=name, PolicyName=name, PolicyDocument=document)


async def assume(aws: AwsEmulator, key: AccessKey, arn: str) -> AccessKey:
    found = await call(client(aws, "sts", key).assume_role, RoleArn=arn, RoleSessionName="test-session")
    return aws.keys.issued[found["Credentials"]["AccessKeyId"]]


async def edge_session(aws: AwsEmulator) -> AccessKey:
    """Return the session of a cluster's role, which may assume one role of the hub."""
    administrator = aws.administrator(EDGE_ACCOUNT)
    await create_role(aws, EDGE_ROLE, trusts(administrator.principal.arn, {}), **TAG)
    await allow(aws, EDGE_ROLE, policy(Action="sts:AssumeRole", Resource=HUB_ROLE))
    return await assume(aws, administrator, EDGE_ROLE)


async def test_key_that_was_not_issued_is_refused(aws: AwsEmulator) -> None:
    unknown = replace(aws.administrator(HUB_ACCOUNT), id="AKIAIOSFODNN7EXAMPLE")

    assert await refusal(client(aws, "iam", unknown).list_roles) == "InvalidClientTokenId"


async def test_wrong_secret_is_refused(aws: AwsEmulator) -> None:
    forger = replace(aws.administrator(HUB_ACCOUNT), secret=Sensitive("wrong"))

    assert await refusal(client(aws, "iam", forger).list_roles) == "SignatureDoesNotMatch"
    assert await refusal(client(aws, "eks", forger).list_clusters) == "SignatureDoesNotMatch"


async def test_signature_of_ten_minutes_ago_is_refused(aws: AwsEmulator) -> None:
    key = aws.administrator(HUB_ACCOUNT)
    aws.clock.offset = timedelta(minutes=10)  # type: ignore[attr-defined]  # the fixture's own

    assert await refusal(client(aws, "sts", key).get_caller_identity) == "SignatureDoesNotMatch"


async def test_unsigned_request_is_refused(aws: AwsEmulator) -> None:
    iam = boto3.client(
        "iam", endpoint_url=aws.endpoint_url, region_name="us-west-2", config=Config(signature_version=_unsigned())
    )

    assert await refusal(iam.list_roles) == "MissingAuthenticationToken"


async def test_accounts_do_not_see_the_roles_of_each_other(aws: AwsEmulator) -> None:
    await edge_session(aws)

    found = await call(client(aws, "iam", aws.administrator(HUB_ACCOUNT)).list_roles)

    assert found["Roles"] == []


async def test_role_with_the_tags_that_a_trust_policy_wants_assumes_the_role(aws: AwsEmulator) -> None:
    session = await edge_session(aws)
    await create_role(aws, HUB_ROLE, trusts(EDGE_ROLE, TAG))

    found = await assume(aws, session, HUB_ROLE)

    identity = await call(client(aws, "sts", found).get_caller_identity)
    assert identity["Arn"] == f"arn:aws:sts::{HUB_ACCOUNT}:assumed-role/ocm-hub-edge/test-session"


@pytest.mark.parametrize(
    ("principal", "tags", "resource"),
    [
        pytest.param(EDGE_ROLE, {"managed_cluster_name": "other"}, HUB_ROLE, id="another tag"),
        pytest.param(EDGE_ROLE, {"missing": "edge"}, HUB_ROLE, id="a tag that the caller does not have"),
        pytest.param(f"arn:aws:iam::{EDGE_ACCOUNT}:role/other", TAG, HUB_ROLE, id="another principal"),
        pytest.param(EDGE_ROLE, TAG, f"{HUB_ROLE}-2", id="the caller's own policy names another role"),
    ],
)
async def test_role_is_not_assumed(aws: AwsEmulator, principal: str, tags: dict[str, str], resource: str) -> None:
    session = await edge_session(aws)
    await allow(aws, EDGE_ROLE, policy(Action="sts:AssumeRole", Resource=resource))
    await create_role(aws, f"arn:aws:iam::{EDGE_ACCOUNT}:role/other", trusts(EDGE_ROLE, {}))
    await create_role(aws, HUB_ROLE, trusts(principal, tags))

    refused = client(aws, "sts", session).assume_role

    assert await refusal(refused, RoleArn=HUB_ROLE, RoleSessionName="test-session") == "AccessDenied"


async def test_trust_policy_that_names_a_missing_role_is_refused(aws: AwsEmulator) -> None:
    iam = client(aws, "iam", aws.administrator(HUB_ACCOUNT))

    code = await refusal(iam.create_role, RoleName="r", AssumeRolePolicyDocument=trusts(EDGE_ROLE, {}))

    assert code == "MalformedPolicyDocument"


async def test_role_that_was_created_again_is_not_trusted_by_an_old_policy(aws: AwsEmulator) -> None:
    await edge_session(aws)
    await create_role(aws, HUB_ROLE, trusts(EDGE_ROLE, TAG))
    iam, name = client(aws, "iam", aws.administrator(EDGE_ACCOUNT)), EDGE_ROLE.rpartition("/")[2]
    await call(iam.delete_role_policy, RoleName=name, PolicyName=name)
    await call(iam.delete_role, RoleName=name)

    again = await edge_session(aws)

    refused = client(aws, "sts", again).assume_role
    assert await refusal(refused, RoleArn=HUB_ROLE, RoleSessionName="test-session") == "AccessDenied"


async def test_session_does_only_what_its_role_allows(aws: AwsEmulator) -> None:
    aws.add_cluster(EksCluster(HUB))
    session = await edge_session(aws)

    assert await refusal(client(aws, "iam", session).list_roles) == "AccessDenied"
    assert await refusal(client(aws, "eks", session).describe_cluster, name="hub") == "ResourceNotFoundException"


async def test_access_entry_is_created_changed_listed_and_deleted(aws: AwsEmulator) -> None:
    aws.add_cluster(EksCluster(HUB))
    await edge_session(aws)
    await create_role(aws, HUB_ROLE, trusts(EDGE_ROLE, TAG))
    eks = client(aws, "eks", aws.administrator(HUB_ACCOUNT))
    entry = {"clusterName": "hub", "principalArn": HUB_ROLE}

    await call(eks.create_access_entry, **entry, username="edge", kubernetesGroups=["ocm"])
    again = await refusal(eks.create_access_entry, **entry)
    await call(eks.update_access_entry, **entry, kubernetesGroups=["ocm", "others"])
    found = (await call(eks.describe_access_entry, **entry))["accessEntry"]
    listed = (await call(eks.list_access_entries, clusterName="hub"))["accessEntries"]
    await call(eks.delete_access_entry, **entry)

    assert (again, found["kubernetesGroups"], listed) == ("ResourceInUseException", ["ocm", "others"], [HUB_ROLE])
    assert await refusal(eks.describe_access_entry, **entry) == "ResourceNotFoundException"


@pytest.mark.parametrize(
    ("mode", "entry", "code"),
    [
        pytest.param("API", {"kubernetesGroups": ["system:masters"]}, "InvalidParameterException", id="system group"),
        pytest.param("API", {"username": "system:admin"}, "InvalidParameterException", id="system user"),
        pytest.param("API", {"principalArn": f"{HUB_ROLE}-2"}, "InvalidParameterException", id="missing role"),
        pytest.param("CONFIG_MAP", {}, "InvalidRequestException", id="cluster without access entries"),
    ],
)
async def test_access_entry_is_refused(aws: AwsEmulator, mode: str, entry: dict[str, Any], code: str) -> None:
    aws.add_cluster(EksCluster(HUB, authentication_mode=mode))
    await create_role(aws, HUB_ROLE, trusts(f"arn:aws:iam::{HUB_ACCOUNT}:root", {}))
    eks = client(aws, "eks", aws.administrator(HUB_ACCOUNT))

    assert await refusal(eks.create_access_entry, **{"clusterName": "hub", "principalArn": HUB_ROLE, **entry}) == code


async def test_new_role_is_unknown_to_eks_for_a_while(aws: AwsEmulator) -> None:
    aws.add_cluster(EksCluster(HUB))
    aws.hide_new_roles(timedelta(minutes=1))
    await create_role(aws, HUB_ROLE, trusts(f"arn:aws:iam::{HUB_ACCOUNT}:root", {}))
    eks = client(aws, "eks", aws.administrator(HUB_ACCOUNT))

    code = await refusal(eks.create_access_entry, clusterName="hub", principalArn=HUB_ROLE)
    aws.hide_new_roles(timedelta(0))

    assert code == "InvalidParameterException"
    await call(eks.create_access_entry, clusterName="hub", principalArn=HUB_ROLE)


async def test_requests_beyond_the_rate_are_throttled(aws: AwsEmulator) -> None:
    iam = client(aws, "iam", aws.administrator(HUB_ACCOUNT))
    aws.faults.throttle("iam", 0.001)

    await call(iam.list_roles)

    assert await refusal(iam.list_roles) == "Throttling"
    assert [row.error for row in aws.calls] == ["", "Throttling"]


async def test_action_is_refused_as_often_as_ordered(aws: AwsEmulator) -> None:
    iam = client(aws, "iam", aws.administrator(HUB_ACCOUNT))
    aws.faults.refuse("ListRoles", AwsFault("ServiceFailure", "ordered by the test", 500))

    assert await refusal(iam.list_roles) == "ServiceFailure"
    await call(iam.list_roles)


async def hub_token(aws: AwsEmulator, cluster: str = "hub") -> str:
    """Return what the real `aws eks get-token` prints for the role of a mapped cluster."""
    session = await edge_session(aws)
    await create_role(aws, HUB_ROLE, trusts(EDGE_ROLE, TAG))
    command = ["aws", "--region", "us-west-2", "eks", "get-token", "--cluster-name", cluster, "--role-arn", HUB_ROLE]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**session.environment, "PATH": path, "AWS_ENDPOINT_URL": aws.endpoint_url}
    done = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, check=True)
    return str(json.loads(done.stdout)["status"]["token"])


async def review(aws: AwsEmulator, token: str) -> Object:
    question = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = await aws.webhook(HUB).review(question)
    found: Object = answer["status"]
    return found


async def test_token_of_the_aws_command_is_the_user_of_the_access_entry(aws: AwsEmulator) -> None:
    state = aws.add_cluster(EksCluster(HUB))
    token = await hub_token(aws)
    state.entries[HUB_ROLE] = {"username": "edge:{{SessionName}}", "kubernetesGroups": ["ocm"]}

    found = await review(aws, token)

    assert (found["user"]["username"], found["user"]["groups"]) == ("edge:EKSGetTokenAuth", ["ocm"])


async def test_token_of_a_role_without_an_entry_is_not_authenticated(aws: AwsEmulator) -> None:
    aws.add_cluster(EksCluster(HUB, authentication_mode="API"))

    assert await review(aws, await hub_token(aws)) == {"authenticated": False}


async def test_token_for_another_cluster_is_refused(aws: AwsEmulator) -> None:
    state = aws.add_cluster(EksCluster(HUB))
    token = await hub_token(aws, cluster="other")
    state.entries[HUB_ROLE] = {"username": "edge", "kubernetesGroups": ["ocm"]}

    assert (await review(aws, token))["error"].startswith("SignatureDoesNotMatch")


async def test_token_is_refused_after_fifteen_minutes(aws: AwsEmulator) -> None:
    state = aws.add_cluster(EksCluster(HUB))
    token = await hub_token(aws)
    state.entries[HUB_ROLE] = {"username": "edge", "kubernetesGroups": ["ocm"]}
    aws.clock.offset = timedelta(minutes=14)  # type: ignore[attr-defined]  # the fixture's own
    before = await review(aws, token)
    aws.clock.offset = timedelta(minutes=15)  # type: ignore[attr-defined]  # the fixture's own

    assert before["authenticated"]
    assert (await review(aws, token))["error"].startswith("SignatureDoesNotMatch")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"Action": "GetSessionToken"}, id="another action"),
        pytest.param(
            {"X-Amz-Credential": "AKIAIOSFODNN7EXAMPLE/20260101/us-west-2/sts/aws4_request"}, id="another key"
        ),
        pytest.param({"X-Amz-SignedHeaders": "host"}, id="the cluster is not signed"),
        pytest.param({"X-Amz-Expires": "3600"}, id="another expiry"),
        pytest.param({"Extra": "1"}, id="a parameter that is not known"),
    ],
)
async def test_changed_token_is_refused(aws: AwsEmulator, change: dict[str, str]) -> None:
    state = aws.add_cluster(EksCluster(HUB))
    url = urlsplit(_decoded(await hub_token(aws)))
    state.entries[HUB_ROLE] = {"username": "edge", "kubernetesGroups": ["ocm"]}
    changed = url._replace(query=urlencode(dict(parse_qsl(url.query)) | change)).geturl()

    found = await review(aws, _token(changed))

    assert not found["authenticated"]
    assert found["error"]


@pytest.mark.parametrize("host", ["evil.example.com", "sts.amazonaws.com.evil.example.com"])
async def test_token_for_a_host_that_is_not_sts_is_refused(aws: AwsEmulator, host: str) -> None:
    aws.add_cluster(EksCluster(HUB))
    url = urlsplit(_decoded(await hub_token(aws)))

    found = await review(aws, _token(url._replace(netloc=host).geturl()))

    assert found["error"] == "InvalidToken: the token is signed for a host that is not STS"


@pytest.mark.parametrize("token", ["", "k8s-aws-v1.", "k8s-aws-v1.%%%", "k8s-aws-v1." + "A" * 20_000, "bearer"])
async def test_text_that_is_not_a_token_is_refused(aws: AwsEmulator, token: str) -> None:
    aws.add_cluster(EksCluster(HUB))

    assert (await review(aws, token))["error"].startswith("InvalidToken")


def _decoded(token: str) -> str:
    encoded = token.removeprefix("k8s-aws-v1.")
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


def _token(url: str) -> str:
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def _unsigned() -> Any:
    from botocore import UNSIGNED  # noqa: PLC0415 - after the check that it is installed

    return UNSIGNED
