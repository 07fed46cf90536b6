"""`watchword aws` prints roles in every form, without asking any server."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run
from watchword.registration.aws_irsa.documents import (
    AgentAccounts,
    EksClusterArn,
    IamRole,
    identity_creator_role,
    managed_cluster_role,
)

Output = pytest.CaptureFixture[str]
HUB = "arn:aws:eks:us-west-2:111122223333:cluster/fleet-hub"
MANAGED = "arn:aws:eks:eu-central-1:444455556666:cluster/edge-1"
PROVIDER = "oidc.eks.eu-central-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE"
PREREQUISITES = ("aws", "prerequisites")
FOR_HUB = (*PREREQUISITES, "hub", "--eks-hub-cluster-arn", HUB, "--oidc-provider", f"https://{PROVIDER}")
FOR_CLUSTER = (
    *(*PREREQUISITES, "cluster", "--eks-hub-cluster-arn", HUB),
    *("--managed-cluster-arn", MANAGED, "--oidc-provider", f"https://{PROVIDER}"),
)
CREATOR = identity_creator_role(EksClusterArn.parse(HUB), PROVIDER)
AGENT = managed_cluster_role(EksClusterArn.parse(HUB), EksClusterArn.parse(MANAGED), PROVIDER, AgentAccounts())
BOTH = pytest.mark.parametrize(("argv", "role"), [(FOR_HUB, CREATOR), (FOR_CLUSTER, AGENT)], ids=["hub", "cluster"])


def printed(output: Output, *argv: str) -> str:
    assert run(argv) == 0
    return output.readouterr().out


def test_identifier_is_printed(capsys: Output) -> None:
    argv = ("aws", "identifier", "hubaccount1", "hubcluster1", "managedaccount1", "managedcluster1")

    assert printed(capsys, *argv) == "79e99112993014816615711cbd35a9bc\n"


def test_role_of_a_cluster_is_printed_to_the_character(capsys: Output) -> None:
    assert printed(capsys, *FOR_CLUSTER) == (
        f"Role:\n{AGENT.arn}\n"
        f"\nAccess policy:\n{AGENT.access_policy}"
        f"\nTrust policy:\n{AGENT.trust_policy}"
        "\nTags:\nhub_cluster_account_id: 111122223333\nhub_cluster_name: fleet-hub\n"
        "managed_cluster_account_id: 444455556666\nmanaged_cluster_name: edge-1\n"
    )


def test_role_of_a_hub_is_printed_to_the_character(capsys: Output) -> None:
    assert printed(capsys, *FOR_HUB) == (
        f"Role:\n{CREATOR.arn}\n\nAccess policy:\n{CREATOR.access_policy}\nTrust policy:\n{CREATOR.trust_policy}"
    )


@BOTH
def test_role_is_printed_for_programs(argv: tuple[str, ...], role: IamRole, capsys: Output) -> None:
    assert json.loads(printed(capsys, *argv, "-o", "json")) == {
        "roleArn": role.arn,
        "roleName": role.name,
        "policyName": role.name,
        "accessPolicy": json.loads(role.access_policy),
        "trustPolicy": json.loads(role.trust_policy),
        "tags": dict(role.tags),
    }


@BOTH
def test_commands_hold_the_documents_to_the_character(argv: tuple[str, ...], role: IamRole, capsys: Output) -> None:
    words = shlex.split(printed(capsys, *argv, "-o", "commands"))

    assert words[words.index("--assume-role-policy-document") + 1] + "\n" == role.trust_policy
    assert words[words.index("--policy-document") + 1] + "\n" == role.access_policy


@BOTH
def test_terraform_holds_the_documents_to_the_character(argv: tuple[str, ...], role: IamRole, capsys: Output) -> None:
    text = printed(capsys, *argv, "-o", "terraform")

    documents = [dedent(each) for each in re.findall(r"<<-POLICY\n(.*?)^  POLICY$", text, re.DOTALL | re.MULTILINE)]
    tags = dict(re.findall(r'^    (\w+) += "([^"]*)"$', text, re.MULTILINE))

    assert documents == [role.trust_policy, role.access_policy]
    assert tags == dict(role.tags)


def test_label_in_terraform_begins_with_no_digit(capsys: Output) -> None:
    argv = (
        *PREREQUISITES,
        "hub",
        "--eks-hub-cluster-arn",
        HUB.replace("fleet-hub", "1hub"),
        "--oidc-provider",
        PROVIDER,
    )

    text = printed(capsys, *argv, "-o", "terraform")

    assert 'resource "aws_iam_role" "_1hub_managed-cluster-identity-creator" {' in text
    assert "role   = aws_iam_role._1hub_managed-cluster-identity-creator.id" in text


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        pytest.param(
            (*PREREQUISITES, "hub", "--eks-hub-cluster-arn", "fleet-hub", "--oidc-provider", PROVIDER),
            "'fleet-hub' is not the ARN of an EKS cluster: "
            "give arn:<partition>:eks:<region>:<12-digit account>:cluster/<name>",
            id="no ARN",
        ),
        pytest.param(
            ("aws", "identifier", "a#b", "c", "d", "e"),
            "hub_cluster_account_id 'a#b' is malformed: use 1 to 100 letters, digits, '-' and '_', "
            "and begin with a letter or digit",
            id="delimiter in a value",
        ),
        pytest.param(
            (*FOR_HUB, "--apply", "-o", "terraform"),
            "--apply prints what it changed as text or json, not as terraform",
            id="two purposes",
        ),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(argv: tuple[str, ...], sentence: str, capsys: Output) -> None:
    assert run(argv) == ExitCode.NOT_USABLE
    assert capsys.readouterr().err.splitlines()[-1].endswith(f": {sentence}")


def test_missing_libraries_are_named_with_what_installs_them(tmp_path: Path) -> None:
    missing = "raise ModuleNotFoundError(\"No module named 'boto3'\", name='boto3')\n"
    (tmp_path / "boto3.py").write_text(missing)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    done = subprocess.run(
        [sys.executable, "-m", "watchword", *FOR_HUB, "--apply"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == ExitCode.NOT_USABLE
    assert done.stderr == "watchword: the AWS libraries are not installed: run pip install 'watchword[aws]'\n"


def test_nothing_but_apply_imports_the_aws_libraries() -> None:
    probe = (
        f"import sys; from watchword.cli.main import run; run({FOR_CLUSTER!r}); print(*sys.modules, file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert {name.split(".")[0] for name in done.stderr.split()} & {
        "boto3",
        "botocore",
        "asyncio",
        "cryptography",
    } == set()
