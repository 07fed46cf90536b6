"""A cluster registers by IAM with pods that have their AWS identity as on EKS: by annotation, admission and token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'watchword[aws]'")
pytest.importorskip("moto", reason="moto is not installed: pip install 'watchword[aws-emulator]'")

from tests.emulators.aws import AwsEmulator, EksCluster
from tests.node.real_cluster import RealCluster

from watchword.testing.credentials import write_private

pytestmark = pytest.mark.real_time

REGION = "us-west-2"
ACCOUNTS = {"hub": "111122223333", "edge": "444455556666"}
HUB = ("--eks-hub-cluster-arn", f"arn:aws:eks:{REGION}:{ACCOUNTS['hub']}:cluster/fleet-hub")
EDGE = ("--managed-cluster-arn", f"arn:aws:eks:{REGION}:{ACCOUNTS['edge']}:cluster/edge-1")
PROVIDER = "kubernetes.default.svc.cluster.local"
WEBHOOK = "--authentication-token-webhook"


@pytest_asyncio.fixture
async def aws(cluster: RealCluster) -> AsyncIterator[AwsEmulator]:
    """AWS with the cluster as two of EKS: the hub, and a member in another account."""
    async with AwsEmulator(host=cluster.node.gateway) as running:
        for _, arn in (HUB, EDGE):
            running.add_cluster(EksCluster(arn, cluster.node.kubeconfig, oidc_provider=PROVIDER))
        await asyncio.to_thread(make_eks, cluster, running)
        yield running
        await asyncio.to_thread(make_plain, cluster)


def make_eks(cluster: RealCluster, aws: AwsEmulator) -> None:
    """Let the API server take tokens of IAM, and give pods their AWS identity; write the keys of administrators."""
    configuration = aws.pod_identity_configuration(HUB[1])
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(configuration))  # before the start: no cache is behind
    path = write_private(cluster.folder / "webhook.kubeconfig", aws.webhook_kubeconfig(HUB[1]))
    cluster.node.restart_with("kube-apiserver", f"{WEBHOOK}-config-file={path}", f"{WEBHOOK}-version=v1")
    cluster.await_server()
    profiles = []
    for name, account in ACCOUNTS.items():
        keys = {key.lower(): value for key, value in aws.administrator(account).environment.items()}
        settings = {"region": REGION, "endpoint_url": aws.endpoint_url, **keys}
        profiles += [f"[profile {name}]", *(f"{key} = {value}" for key, value in settings.items())]
    (cluster.folder / ".aws").mkdir()
    write_private(cluster.folder / ".aws" / "config", "\n".join(profiles).encode())


def make_plain(cluster: RealCluster) -> None:
    cluster.kubectl("delete", "mutatingwebhookconfiguration", "pod-identity-webhook")
    cluster.node.restart_with("kube-apiserver")
    cluster.await_server()


async def test_cluster_joins_uses_addons_and_leaves_by_iam_alone(cluster: RealCluster, aws: AwsEmulator) -> None:
    await asyncio.to_thread(join_use_and_leave, cluster)

    done = {(call.action, call.account) for call in aws.calls if not call.error}
    assert ("AssumeRole", ACCOUNTS["edge"]) in done
    own = ("CreateAccessEntry", "DeleteAccessEntry", "DeleteRole")
    assert {(action, ACCOUNTS["hub"]) for action in own} <= done


def join_use_and_leave(cluster: RealCluster) -> None:
    provider = ("--oidc-provider", PROVIDER, "--apply")
    prerequisites = ("watchword", "aws", "prerequisites")
    cluster.run("env", "AWS_PROFILE=hub", *prerequisites, "hub", *HUB, *provider)
    cluster.run("env", "AWS_PROFILE=edge", *prerequisites, "cluster", *HUB, *EDGE, *provider)

    cluster.join(cluster.init("--registration-auth", "aws-irsa", *HUB), *EDGE)

    cluster.await_renewal("lease", "managed-cluster-lease", "-n", "edge-1")
    held = cluster.get("secret", "hub-kubeconfig-secret", "-n", "open-cluster-management-agent")
    assert set(held["data"]) == {"kubeconfig", "cluster-name", "agent-name"}
    addon = ("managed-serviceaccount", "--clusters", "edge-1", "--wait")
    cluster.watchword("addon", "enable", *addon)
    cluster.watchword("serviceaccount", "create", "robot", "-n", "edge-1", "--wait")
    cluster.watchword("doctor")
    assert cluster.get("certificatesigningrequests")["items"] == []
    cluster.watchword("addon", "disable", *addon)
    cluster.leave_and_clean()
