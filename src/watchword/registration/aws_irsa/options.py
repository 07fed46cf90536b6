"""What can be configured about registration by IAM, on the cluster's side."""

from __future__ import annotations

from msgspec import Struct

from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.claims import MANAGED_ARN as MANAGED_ARN_ANNOTATION
from watchword.registration.aws_irsa.claims import OCM_MANAGED_ARN, OCM_ROLE_SUFFIX
from watchword.registration.aws_irsa.errors import InvalidName
from watchword.registration.aws_irsa.hub_options import ROLE_ANNOTATION, validate_arn
from watchword.registration.aws_irsa.identifier import RoleTags
from watchword.registration.options import DriverOption, Settings, Side

HUB_CLUSTER_ARN = DriverOption(
    flag="--eks-hub-cluster-arn",
    aliases=("--hub-cluster-arn",),
    help="The ARN of the EKS cluster that is the hub.",
    side=Side.CLUSTER,
    paths=(("registrationDriver", "awsIrsa", "hubClusterArn"),),
    required=True,
    validate=validate_arn,
)
MANAGED_CLUSTER_ARN = DriverOption(
    flag="--managed-cluster-arn",
    help="The ARN of this EKS cluster; found in the context of a kubeconfig that `aws` wrote.",
    side=Side.CLUSTER,
    paths=(("registrationDriver", "awsIrsa", "managedClusterArn"),),
    required=True,
    validate=validate_arn,
    from_context=lambda context: "" if validate_arn(context) else context,
)
CLUSTER_OPTIONS = (HUB_CLUSTER_ARN, MANAGED_CLUSTER_ARN)


class ClusterPair(Struct, frozen=True):
    """A managed cluster and its hub, with the roles by which the one reaches the other."""

    hub: EksClusterArn
    managed: EksClusterArn

    @classmethod
    def read(cls, settings: Settings) -> ClusterPair:
        """Return what is configured; `InvalidName` when it is incomplete or malformed."""
        pair = cls(
            EksClusterArn.parse(HUB_CLUSTER_ARN.read(settings)),
            EksClusterArn.parse(MANAGED_CLUSTER_ARN.read(settings)),
        )
        RoleTags.of(pair.hub, pair.managed)  # no role can be assumed across partitions
        return pair

    @property
    def identifier(self) -> str:
        """The end of the names of both roles."""
        return RoleTags.of(self.hub, self.managed).identifier

    @property
    def hub_role(self) -> str:
        """The ARN of the role that the hub maps to this cluster."""
        return f"arn:{self.hub.partition}:iam::{self.hub.account}:role/ocm-hub-{self.identifier}"

    @property
    def managed_role(self) -> str:
        """The ARN of the role that the agent's pods have."""
        return f"arn:{self.managed.partition}:iam::{self.managed.account}:role/ocm-managed-cluster-{self.identifier}"


def validate_pair(settings: Settings) -> str:
    """Return why a cluster cannot join a hub with these settings; empty when it can."""
    try:
        ClusterPair.read(settings)
    except InvalidName as objection:
        return str(objection)
    return ""


def annotate(settings: Settings) -> dict[str, str]:
    """Return the annotations that name this cluster to a hub, in the spelling of the design and that of OCM."""
    pair = ClusterPair.read(settings)
    managed = str(pair.managed)
    return {MANAGED_ARN_ANNOTATION: managed, OCM_MANAGED_ARN: managed, OCM_ROLE_SUFFIX: pair.identifier}


def account_annotations(settings: Settings) -> dict[str, str]:
    """Return what gives the agent's pods their role; nothing while the settings cannot be used."""
    return {} if validate_pair(settings) else {ROLE_ANNOTATION: ClusterPair.read(settings).managed_role}
