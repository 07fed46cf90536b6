"""What an accepted cluster is in AWS: its role, and the groups that its role is mapped to."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from watchword.api.names import cloud_agent_user, cluster_group, cluster_group_plain
from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.documents import IamRole, hub_role
from watchword.registration.aws_irsa.identifier import RoleTags


class ClusterIdentity(Struct, frozen=True):
    """A ManagedCluster as AWS knows it, recorded when it was accepted; later annotations do not change it."""

    cluster: str
    uid: str  # of the ManagedCluster
    hub: EksClusterArn
    managed: EksClusterArn

    @property
    def role(self) -> IamRole:
        """The role in the hub's account that the cluster assumes."""
        return hub_role(self.hub, self.managed)

    @property
    def identifier(self) -> str:
        """The md5 in the name of the role; two clusters with the same one cannot both be accepted."""
        return RoleTags.of(self.hub, self.managed).identifier

    @property
    def user(self) -> str:
        """The user name of requests with this role; with a prefix, so that it is no name of a person."""
        return cloud_agent_user(self.cluster)

    @property
    def entry_groups(self) -> tuple[str, ...]:
        """The groups in an access entry: EKS refuses those that begin with `system:`."""
        return (cluster_group_plain(self.cluster),)

    @property
    def config_map_groups(self) -> tuple[str, ...]:
        """The groups in `aws-auth`, as the design has them."""
        return (cluster_group(self.cluster),)

    @property
    def config_map_entry(self) -> Mapping[str, object]:
        """The item of `mapRoles` in `aws-auth`."""
        return {"rolearn": self.role.arn, "username": self.user, "groups": list(self.config_map_groups)}
