"""Reads the ARNs of EKS clusters, and names the roles of a pair of clusters by their identifier."""

from __future__ import annotations

import re
from hashlib import md5

from msgspec import Struct
from msgspec.structs import asdict

from watchword.registration.aws_irsa.errors import InvalidName

DEFAULT_PARTITION = "aws"
REGION_PREFIXES = {
    "aws-cn": "cn-",
    "aws-us-gov": "us-gov-",
    "aws-iso": "us-iso-",
    "aws-iso-b": "us-isob-",
    "aws-iso-e": "eu-isoe-",
    "aws-iso-f": "us-isof-",
    "aws-eusc": "eusc-",
}
"""Partition → how its regions begin; every other region belongs to the default partition."""

CLUSTER_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}", re.ASCII)
_ARN = re.compile(
    r"arn:(?P<partition>[a-z-]{3,12}):eks:(?P<region>[a-z]{2,4}(?:-[a-z]{1,12}){1,3}-[0-9]{1,2})"
    r":(?P<account>[0-9]{12}):cluster/(?P<name>" + CLUSTER_NAME.pattern + ")",
    re.ASCII,
)
_OIDC_PROVIDER = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?:/[0-9A-Za-z_.-]{1,128}){0,4}", re.ASCII)
_FORM = "arn:<partition>:eks:<region>:<12-digit account>:cluster/<name>"


class EksClusterArn(Struct, frozen=True):
    """An EKS cluster: where it runs, in whose account, and its name there."""

    partition: str
    region: str
    account: str
    name: str

    def __str__(self) -> str:
        return f"arn:{self.partition}:eks:{self.region}:{self.account}:cluster/{self.name}"

    @classmethod
    def parse(cls, text: str) -> EksClusterArn:
        """Return the cluster that an ARN names; `InvalidName` when the text is not the ARN of an EKS cluster."""
        match = _ARN.fullmatch(text)
        if match is None:
            raise InvalidName(f"{_shortened(text)} is not the ARN of an EKS cluster: give {_FORM}")
        found = cls(**match.groupdict())
        partition = partition_of_region(found.region)
        if found.partition != partition:
            raise InvalidName(
                f"region {found.region} is not in partition {found.partition}: "
                f"give the ARN as AWS prints it, beginning with arn:{partition}:eks"
            )
        return found


def partition_of_region(region: str) -> str:
    found = (partition for partition, prefix in REGION_PREFIXES.items() if region.startswith(prefix))
    return next(found, DEFAULT_PARTITION)


def parse_oidc_provider(text: str) -> str:
    """Return an OIDC provider as IAM names it, from its name or its issuer URL; `InvalidName` when it is neither."""
    name = text.removeprefix("https://")
    if _OIDC_PROVIDER.fullmatch(name) is None:
        raise InvalidName(
            f"{_shortened(text)} is not an OIDC provider: give the issuer of the EKS cluster, as "
            "`aws eks describe-cluster --query cluster.identity.oidc.issuer` prints it"
        )
    return name


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= 200 else f"{text[:200]!r}…"


DELIMITER = "#"
HUB_ARN_TAG = "hub_cluster_arn"
"""The tag that tells hubs of one account and name apart, which share the names of roles."""


class RoleTags(Struct, frozen=True):
    """A hub and a managed cluster as the tags of their roles name them, in alphabetical order of the keys.

    `InvalidName` when a value cannot name an account or a cluster; with a delimiter in it, two pairs could share roles.
    """

    hub_cluster_account_id: str
    hub_cluster_name: str
    managed_cluster_account_id: str
    managed_cluster_name: str

    def __post_init__(self) -> None:
        for key, value in self.as_dict().items():
            if CLUSTER_NAME.fullmatch(value) is None:
                raise InvalidName(
                    f"{key} {value[:200]!r} is malformed: use 1 to 100 letters, digits, '-' and '_', "
                    "and begin with a letter or digit"
                )

    @classmethod
    def of(cls, hub: EksClusterArn, managed: EksClusterArn) -> RoleTags:
        """Return the tags of two clusters; `InvalidName` when no role of one can be assumed from the other."""
        if hub.partition != managed.partition:
            raise InvalidName(
                f"cluster {managed} cannot join hub {hub}: roles cannot be assumed across the partitions "
                f"{managed.partition} and {hub.partition}; choose a hub in {managed.partition}"
            )
        return cls(hub.account, hub.name, managed.account, managed.name)

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    @property
    def identifier(self) -> str:
        """The md5 of the values, joined in the order of their keys: 32 hexadecimal digits."""
        joined = DELIMITER.join(value for _, value in sorted(self.as_dict().items()))
        return md5(joined.encode(), usedforsecurity=False).hexdigest()
