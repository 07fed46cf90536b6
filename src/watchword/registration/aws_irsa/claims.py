"""Reads from the annotations of a ManagedCluster which EKS cluster it claims to be, in both spellings."""

from __future__ import annotations

from collections.abc import Mapping

from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.errors import InvalidName
from watchword.registration.aws_irsa.identifier import RoleTags

MANAGED_ARN = "eks-managed-cluster-arn"
"""The annotation of the design."""

OCM_MANAGED_ARN = "agent.open-cluster-management.io/managed-cluster-arn"
OCM_ROLE_SUFFIX = "agent.open-cluster-management.io/managed-cluster-iam-role-suffix"
"""The annotations of Open Cluster Management's agents."""

ANNOTATIONS = (MANAGED_ARN, OCM_MANAGED_ARN, OCM_ROLE_SUFFIX)


def read_claimed_arn(annotations: Mapping[str, str], hub: EksClusterArn) -> EksClusterArn:
    """Return the EKS cluster that an agent claims to run on; `InvalidName` when its annotations contradict.

    Nothing is proved by it: only the IAM role that is made for this ARN can use what is granted.
    """
    named = {name: annotations[name] for name in (MANAGED_ARN, OCM_MANAGED_ARN) if annotations.get(name)}
    if not named:
        raise InvalidName(
            f"no annotation names the EKS cluster: set {MANAGED_ARN}, as `watchword join --managed-cluster-arn` does"
        )
    if len(set(named.values())) > 1:
        raise InvalidName(f"the annotations {' and '.join(named)} name different EKS clusters: remove one of them")
    managed = EksClusterArn.parse(next(iter(named.values())))
    expected = RoleTags.of(hub, managed).identifier
    suffix = annotations.get(OCM_ROLE_SUFFIX, expected)
    if suffix != expected:
        raise InvalidName(
            f"the annotation {OCM_ROLE_SUFFIX} is not that of {managed} on hub {hub}: join with the ARN of this hub"
        )
    return managed
