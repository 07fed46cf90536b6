"""What can be configured about registration by IAM, and what a cluster claims in its annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from watchword.credentials.driver import AUTO_APPROVAL, DRIVER_LIST, DriverOption, OptionType, Settings, Side
from watchword.registration.aws_irsa.documents import HUB_ARN_TAG, EksClusterArn, RoleTags
from watchword.registration.aws_irsa.errors import InvalidName

if TYPE_CHECKING:
    from watchword.cel.re2_patterns import Pattern


T = TypeVar("T")
NAME = "aws-irsa"
READY = "AwsIdentityReady"
"""The condition of a ManagedCluster that reports its IAM identity."""

MANAGED_ARN = "eks-managed-cluster-arn"
"""The annotation of the design."""

OCM_MANAGED_ARN = "agent.open-cluster-management.io/managed-cluster-arn"
OCM_ROLE_SUFFIX = "agent.open-cluster-management.io/managed-cluster-iam-role-suffix"
"""The annotations of Open Cluster Management's agents."""

ANNOTATIONS = (MANAGED_ARN, OCM_MANAGED_ARN, OCM_ROLE_SUFFIX)


def read_claimed_arn(annotations: Mapping[str, str], hub: EksClusterArn | None) -> EksClusterArn:
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
    if hub is not None:
        RoleTags.of(hub, managed)  # no role can be assumed across partitions
    return managed


def find_other_hub(annotations: Mapping[str, str], hub: EksClusterArn, managed: EksClusterArn) -> str:
    """Return what to do when an agent was configured with the ARN of another hub; empty when it was not.

    It does not hinder acceptance: an agent may correct what it registered with only once it is accepted.
    """
    expected = RoleTags.of(hub, managed).identifier
    if annotations.get(OCM_ROLE_SUFFIX, expected) == expected:
        return ""
    return f"its agent was joined with the ARN of another hub: join it again with {HUB_ARN.flag} {hub}"


def find_objection(parse: Callable[[T], object], value: T) -> str:
    try:
        parse(value)
    except InvalidName as objection:
        return str(objection)
    return ""


def validate_arn(value: str) -> str:
    return find_objection(EksClusterArn.parse, value)


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
            EksClusterArn.parse(HUB_CLUSTER_ARN.read(settings)), EksClusterArn.parse(MANAGED_CLUSTER_ARN.read(settings))
        )
        RoleTags.of(pair.hub, pair.managed)  # no role can be assumed across partitions
        return pair

    @property
    def identifier(self) -> str:
        return RoleTags.of(self.hub, self.managed).identifier

    @property
    def hub_role(self) -> str:
        return f"arn:{self.hub.partition}:iam::{self.hub.account}:role/ocm-hub-{self.identifier}"

    @property
    def managed_role(self) -> str:
        return f"arn:{self.managed.partition}:iam::{self.managed.account}:role/ocm-managed-cluster-{self.identifier}"


MOST = 45  # IAM allows 50 for a role, and five name hub and cluster
RESERVED_PREFIX = "aws:"
_TEXT = r"[\w .:/+@-]"
_TAG = re.compile(rf"({_TEXT}{{1,128}})=((?:{_TEXT}|=){{0,256}})")  # IAM's limits; a comma separates tags


def parse_tags(rows: Sequence[str]) -> Mapping[str, str]:
    """Return key and value of each `KEY=VALUE`; `InvalidName` when IAM would refuse one, or the hub needs its key."""
    found: dict[str, str] = {}
    for row in rows:
        match = _TAG.fullmatch(row)
        if match is None:
            raise InvalidName(
                f"tag {row[:200]!r} is malformed: write KEY=VALUE with letters, digits, spaces and _ . : / + - @, "
                "at most 128 characters before the = and 256 after it"
            )
        key, value = match.groups()
        if key in (*RoleTags.__struct_fields__, HUB_ARN_TAG) or key.lower().startswith(RESERVED_PREFIX):
            raise InvalidName(f"tag {key} is reserved: choose another key")
        if found.get(key, value) != value:
            raise InvalidName(f"tag {key} has two values: leave one of them out")
        found[key] = value
    if len(found) > MOST:
        raise InvalidName(f"{len(found)} tags are too many: IAM has room for {MOST} beside those of the cluster")
    return found


ENTRY = "awsirsa"
ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
"""The annotation of a ServiceAccount by which EKS gives its pods the credentials of a role."""


class IdentityMode(StrEnum):
    """What creates the IAM roles of accepted clusters, and maps them to their groups."""

    HUB = "hub"  # the hub's controller, with the role of the identity creator
    ACCEPT = "accept"  # the person who runs `watchword accept`, with AWS credentials of their own
    EXTERNAL = "external"  # a program outside, such as Terraform; the hub only verifies


def validate_mode(value: str) -> str:
    known = ", ".join(IdentityMode)
    return "" if value in set(IdentityMode) else f"{MODE.flag} {value!r} is not known: choose one of {known}"


def validate_patterns(value: str) -> str:
    for pattern in value.split(","):
        if pattern.count("{") != pattern.count("}"):
            return f"{PATTERNS.flag} {pattern!r} is incomplete: a pattern cannot contain a comma"
        try:
            _compile(pattern)
        except re.error as error:
            return f"{PATTERNS.flag} {pattern!r} is not a regular expression of RE2: {error}"
    return ""


def _compile(pattern: str) -> Pattern:
    """Return what matches whole ARNs in linear time, because clusters choose their names; raises `re.error`."""
    from watchword.cel.re2_patterns import compile_pattern

    compile_pattern(pattern)  # by itself, so that it cannot close the group below
    return compile_pattern(f"^(?:{pattern})$")


def validate_tags(value: str) -> str:
    return find_objection(parse_tags, [part for part in value.split(",") if part])


HUB_ARN = replace(
    HUB_CLUSTER_ARN,
    help="The ARN of the EKS cluster that is the hub; found in the context of a kubeconfig that `aws` wrote.",
    side=Side.HUB,
    paths=((DRIVER_LIST, ENTRY, "hubClusterArn"),),
    from_context=MANAGED_CLUSTER_ARN.from_context,
)
MODE = DriverOption(
    flag="--aws-identity-mode",
    help="What creates the IAM roles of accepted clusters: hub (the default), accept or external.",
    side=Side.HUB,
    paths=((DRIVER_LIST, ENTRY, "identityMode"),),
    validate=validate_mode,
)
PATTERNS = DriverOption(
    flag="--auto-approved-arn-patterns",
    help=f"Regular expressions for whole ARNs of EKS clusters that are accepted automatically, with {AUTO_APPROVAL}.",
    side=Side.HUB,
    type=OptionType.LIST,
    paths=((DRIVER_LIST, ENTRY, "autoApprovedIdentities"),),
    gate=AUTO_APPROVAL,
    validate=validate_patterns,
)
TAGS = DriverOption(
    flag="--aws-resource-tags",
    help="Tags, as KEY=VALUE, for the IAM roles that are created for accepted clusters.",
    side=Side.HUB,
    type=OptionType.LIST,
    paths=((DRIVER_LIST, ENTRY, "tags"),),
    validate=validate_tags,
)
HUB_OPTIONS = (HUB_ARN, MODE, PATTERNS, TAGS)


def hub_arn(settings: Settings) -> EksClusterArn:
    """Return the hub; `InvalidName` when it is not configured."""
    return EksClusterArn.parse(HUB_ARN.read(settings))


def identity_mode(settings: Settings) -> IdentityMode:
    return IdentityMode(MODE.read(settings) or IdentityMode.HUB)


def role_tags(settings: Settings) -> Mapping[str, str]:
    return parse_tags(TAGS.read_list(settings))


def is_allowed_arn(arn: EksClusterArn, settings: Settings) -> bool:
    return any(_compile(pattern).search(str(arn)) for pattern in PATTERNS.read_list(settings))
