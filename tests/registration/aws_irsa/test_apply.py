"""`watchword aws prerequisites --apply` creates and repairs roles, in the IAM of moto's server."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'watchword[aws]'")
pytest.importorskip("moto", reason="moto is not installed: pip install 'moto[server]'")

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120), pytest.mark.usefixtures("logs_in_file")]

ACCOUNT = "123456789012"  # the one that moto's server gives to every credential
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-to-be-printed"}
PROVIDER = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE"
LISTENS = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")
UNCHANGED: list[str] = []
ALLOWS_EVERYTHING = """
{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
"""
TRUSTS_EVERYONE = """
{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}]}
"""


@dataclass(frozen=True, slots=True)
class Aws:
    """An AWS account over a socket, and a hub whose name no other test uses."""

    endpoint: str
    home: Path
    hub: str
    region: str = "us-west-2"
    partition: str = "aws"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        path = os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", "")])
        own = {"HOME": str(self.home), "PATH": path, "AWS_ENDPOINT_URL": self.endpoint, "AWS_MAX_ATTEMPTS": "1"}
        return inherited | own | {"AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": self.region}

    @property
    def iam(self) -> Any:
        return iam_client(self.endpoint, self.region)

    def arguments(self, whose: str, *, account: str = ACCOUNT, provider: str = PROVIDER) -> list[str]:
        """Return the command for the hub's or the cluster's role; both are in one account."""
        arn = f"arn:{self.partition}:eks:{self.region}:{account}:cluster/"
        managed = ["--managed-cluster-arn", f"{arn}edge-1"] if whose == "cluster" else []
        return [whose, "--eks-hub-cluster-arn", f"{arn}{self.hub}", *managed, "--oidc-provider", provider]

    def run(self, *argv: str, credentials: dict[str, str] = CREDENTIALS) -> subprocess.CompletedProcess[str]:
        """Run the command in this process, which has imported boto3 already: 0.25 s of processor time less."""
        own = self.environment | credentials
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as err,
        ):
            for name in os.environ.keys() - own.keys():
                patch.delenv(name)
            for name, value in own.items():
                patch.setenv(name, value)
            code = run(["aws", "prerequisites", *argv])
        return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())

    def apply(self, whose: str) -> list[str]:
        """Apply a role, and return what was changed."""
        done = self.run(*self.arguments(whose), "--apply", "-o", "json")
        assert done.returncode == 0, done.stderr
        changes: list[str] = json.loads(done.stdout)["changes"]
        return changes

    def wanted(self, whose: str) -> dict[str, Any]:
        """Return the role that the command prints."""
        document: dict[str, Any] = json.loads(self.run(*self.arguments(whose), "-o", "json").stdout)
        return document

    def stored(self, name: str) -> dict[str, Any]:
        """Return a role of IAM, in the form of the command."""
        role = self.iam.get_role(RoleName=name)["Role"]
        return {
            "roleArn": role["Arn"],
            "roleName": role["RoleName"],
            "policyName": name,
            "accessPolicy": self.iam.get_role_policy(RoleName=name, PolicyName=name)["PolicyDocument"],
            "trustPolicy": role["AssumeRolePolicyDocument"],
            "tags": {tag["Key"]: tag["Value"] for tag in role.get("Tags", [])},
        }

    def role_names(self) -> set[str]:
        return {role["RoleName"] for role in self.iam.list_roles()["Roles"]}


@cache  # a client reads the whole model of IAM
def iam_client(endpoint: str, region: str) -> Any:
    keys = {key.lower(): value for key, value in CREDENTIALS.items()}
    return boto3.client("iam", region_name=region, endpoint_url=endpoint, **keys)


@contextmanager
def moto_server(**settings: str) -> Iterator[str]:
    """Run moto's server on a free port; return its address."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | settings) as process:
        assert process.stderr is not None
        try:
            found = next(match for line in process.stderr if (match := LISTENS.search(line)))
            rest = Thread(target=process.stderr.read)  # a pipe that fills up would stop the server
            rest.start()
            yield found[1]
        finally:
            process.terminate()
        rest.join()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_server() as address:
        yield address


@pytest.fixture
def aws(endpoint: str, tmp_path: Path) -> Aws:
    return Aws(endpoint, tmp_path, f"hub-{secrets.token_hex(4)}")


@pytest.mark.parametrize("whose", ["hub", "cluster"])
def test_role_is_created_as_it_is_printed_and_a_second_run_changes_nothing(aws: Aws, whose: str) -> None:
    wanted = aws.wanted(whose)

    assert aws.apply(whose) == ["role created", "access policy written"]
    assert aws.stored(wanted["roleName"]) == wanted

    made = aws.iam.get_role(RoleName=wanted["roleName"])["Role"]
    assert aws.apply(whose) == UNCHANGED
    assert aws.iam.get_role(RoleName=wanted["roleName"])["Role"] == made


@pytest.mark.parametrize(
    ("drift", "change"),
    [
        ("update_assume_role_policy", "trust policy replaced"),
        ("untag_role", "tags written"),
        ("tag_role", "tags written"),
        ("put_role_policy", "access policy written"),
        ("delete_role_policy", "access policy written"),
    ],
)
def test_drift_is_repaired_and_nothing_else_is_written(aws: Aws, drift: str, change: str) -> None:
    aws.apply("cluster")
    wanted = aws.wanted("cluster")
    name = wanted["roleName"]
    arguments: dict[str, dict[str, Any]] = {
        "update_assume_role_policy": {"PolicyDocument": TRUSTS_EVERYONE},
        "untag_role": {"TagKeys": ["hub_cluster_name"]},
        "tag_role": {"Tags": [{"Key": "managed_cluster_name", "Value": "edge-2"}]},
        "put_role_policy": {"PolicyName": name, "PolicyDocument": ALLOWS_EVERYTHING},
        "delete_role_policy": {"PolicyName": name},
    }
    getattr(aws.iam, drift)(RoleName=name, **arguments[drift])

    assert aws.apply("cluster") == [change]
    assert aws.stored(name) == wanted


def test_tags_and_policies_of_others_are_kept(aws: Aws) -> None:
    aws.apply("cluster")
    name = aws.wanted("cluster")["roleName"]
    aws.iam.tag_role(RoleName=name, Tags=[{"Key": "team", "Value": "platform"}])
    aws.iam.put_role_policy(RoleName=name, PolicyName="audit", PolicyDocument=ALLOWS_EVERYTHING)
    aws.iam.untag_role(RoleName=name, TagKeys=["hub_cluster_name"])

    assert aws.apply("cluster") == ["tags written"]
    assert aws.stored(name)["tags"] == {**aws.wanted("cluster")["tags"], "team": "platform"}
    assert "audit" in aws.iam.list_role_policies(RoleName=name)["PolicyNames"]


def test_interrupted_run_is_completed_by_the_next(aws: Aws) -> None:
    wanted = aws.wanted("cluster")
    trust = json.dumps(wanted["trustPolicy"])
    tags = [{"Key": key, "Value": value} for key, value in wanted["tags"].items()]
    aws.iam.create_role(RoleName=wanted["roleName"], AssumeRolePolicyDocument=trust, Tags=tags)

    assert aws.apply("cluster") == ["access policy written"]
    assert aws.stored(wanted["roleName"]) == wanted


def test_role_of_another_cluster_is_left_as_it_is(aws: Aws) -> None:
    aws.apply("cluster")
    wanted = aws.wanted("cluster")
    rebuilt = aws.arguments("cluster", provider="oidc.eks.us-west-2.amazonaws.com/id/ANOTHER")

    done = aws.run(*rebuilt, "--apply")

    assert done.returncode == ExitCode.REFUSED
    assert "it belongs to another EKS cluster of the same account and name" in done.stderr
    assert aws.stored(wanted["roleName"]) == wanted


def test_role_under_a_path_is_left_as_it_is(aws: Aws) -> None:
    wanted = aws.wanted("cluster")
    trust = json.dumps(wanted["trustPolicy"])
    aws.iam.create_role(RoleName=wanted["roleName"], Path="/team/", AssumeRolePolicyDocument=trust)

    done = aws.run(*aws.arguments("cluster"), "--apply")

    assert done.returncode == ExitCode.REFUSED
    assert aws.iam.list_role_policies(RoleName=wanted["roleName"])["PolicyNames"] == []


def test_credentials_of_another_account_create_nothing(aws: Aws) -> None:
    before = aws.role_names()

    done = aws.run(*aws.arguments("cluster", account="444455556666"), "--apply")

    assert done.returncode == ExitCode.REFUSED
    assert f"the AWS credentials belong to account {ACCOUNT} in partition aws: use credentials of" in done.stderr
    assert aws.role_names() == before


def test_role_is_created_in_the_partition_of_the_cluster(endpoint: str, tmp_path: Path) -> None:
    china = Aws(endpoint, tmp_path, f"hub-{secrets.token_hex(4)}", "cn-north-1", "aws-cn")

    assert china.apply("cluster") == ["role created", "access policy written"]
    wanted = china.wanted("cluster")
    assert wanted["roleArn"].startswith(f"arn:aws-cn:iam::{ACCOUNT}:role/")
    assert china.stored(wanted["roleName"]) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["hub", "cluster"])
def test_printed_commands_create_what_apply_would(aws: Aws, whose: str) -> None:
    if not (Path(sys.executable).parent / "aws").is_file():
        pytest.skip("the aws command is not installed: pip install awscli")
    script = aws.run(*aws.arguments(whose), "-o", "commands").stdout

    subprocess.run(["sh", "-e"], input=script, text=True, env=aws.environment | CREDENTIALS, check=True, timeout=60)

    wanted = aws.wanted(whose)
    assert aws.stored(wanted["roleName"]) == wanted
    assert aws.apply(whose) == UNCHANGED


def test_missing_credentials_are_named(aws: Aws) -> None:
    done = aws.run(*aws.arguments("hub"), "--apply", credentials={})

    assert done.returncode == ExitCode.UNREACHABLE
    assert done.stderr == "watchword: there are no AWS credentials: set AWS_PROFILE, or run `aws configure`\n"


def test_aws_that_does_not_answer_is_named(tmp_path: Path) -> None:
    silent = Aws("http://127.0.0.1:1", tmp_path, "hub")

    done = silent.run(*silent.arguments("hub"), "--apply")

    assert done.returncode == ExitCode.UNREACHABLE
    assert "AWS cannot be asked (EndpointConnectionError)" in done.stderr


@pytest.mark.slow
def test_refused_credentials_are_not_printed(tmp_path: Path) -> None:
    with moto_server(INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        aws = Aws(strict, tmp_path, "hub")
        done = aws.run(*aws.arguments("hub"), "--apply")

    assert done.returncode == ExitCode.FAILED
    assert "with InvalidClientTokenId: check AWS_PROFILE and the AWS credentials" in done.stderr
    assert not any(value in done.stderr + done.stdout for value in CREDENTIALS.values())
