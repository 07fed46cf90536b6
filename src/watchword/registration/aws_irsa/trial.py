"""How `watchword up` shows registration by IAM without an AWS account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.hub_options import HUB_ARN, ROLE_ANNOTATION, hub_account_annotations
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN, MANAGED_CLUSTER_ARN, ClusterPair
from watchword.registration.cloud_trial import CloudTrial
from watchword.registration.options import Settings

HUB = EksClusterArn("aws", "us-west-2", "111122223333", "hub")
CLUSTER_ACCOUNTS = 444_400_000_000  # each cluster has an account of its own: their issuers have the same name


def managed_arn(number: int) -> EksClusterArn:
    """Return the ARN of a cluster."""
    return EksClusterArn("aws", HUB.region, str(CLUSTER_ACCOUNTS + number), f"cluster{number}")


def cluster_settings(number: int) -> Settings:
    """Return the flags with which a cluster joins."""
    return {HUB_CLUSTER_ARN.flag: str(HUB), MANAGED_CLUSTER_ARN.flag: str(managed_arn(number))}


def accounts(hub: Path, clusters: Sequence[Path]) -> Object:
    """Return what the emulator is told."""
    numbered = enumerate(clusters, 1)
    return {
        "hub": {"arn": str(HUB), "kubeconfig": str(hub)},
        "clusters": [{"arn": str(managed_arn(number)), "kubeconfig": str(path)} for number, path in numbered],
    }


def environment(endpoint: str, token: Path, settings: Settings) -> Mapping[str, str]:
    """Return what EKS sets for the pods of a ServiceAccount with a role, and where AWS is."""
    is_hub = MANAGED_CLUSTER_ARN.flag not in settings
    role = hub_account_annotations(settings)[ROLE_ANNOTATION] if is_hub else ClusterPair.read(settings).managed_role
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": HUB.region,
        "AWS_ROLE_ARN": role,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


TRIAL = CloudTrial(
    name="aws",
    module="tests.emulators.aws",
    libraries=("boto3", "moto", "flask", "flask_cors"),
    extra="aws,aws-emulator",
    audience="sts.amazonaws.com",
    hub_account=ObjectKey(HUB_NAMESPACE, "registration-controller-sa"),
    hub_settings={HUB_ARN.flag: str(HUB)},
    cluster_settings=cluster_settings,
    accounts=accounts,
    environment=environment,
)
