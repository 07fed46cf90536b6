"""What can be configured about registration by IAM, on the hub's side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.documents import CREATOR_SUFFIX
from watchword.registration.aws_irsa.errors import InvalidName
from watchword.registration.aws_irsa.role_tags import parse_tags
from watchword.registration.options import AUTO_APPROVAL, DRIVER_LIST, DriverOption, OptionType, Settings, Side

ENTRY = "awsirsa"
ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
"""The annotation of a ServiceAccount by which EKS gives its pods the credentials of a role."""


class IdentityMode(StrEnum):
    """What creates the IAM roles of accepted clusters, and maps them to their groups."""

    HUB = "hub"  # the hub's controller, with the role of the identity creator
    ACCEPT = "accept"  # the person who runs `watchword accept`, with AWS credentials of their own
    EXTERNAL = "external"  # a program outside, such as Terraform; the hub only verifies


def validate_arn(value: str) -> str:
    """Return why a value is not the ARN of an EKS cluster; empty when it is."""
    try:
        EksClusterArn.parse(value)
    except InvalidName as objection:
        return str(objection)
    return ""


def validate_mode(value: str) -> str:
    """Return why a value is no mode; empty when it is."""
    known = ", ".join(IdentityMode)
    return "" if value in set(IdentityMode) else f"{MODE.flag} {value!r} is not known: choose one of {known}"


def validate_patterns(value: str) -> str:
    """Return why a list of patterns cannot be used; empty when it can."""
    for pattern in value.split(","):
        if pattern.count("{") != pattern.count("}"):
            return f"{PATTERNS.flag} {pattern!r} is incomplete: a pattern cannot contain a comma"
        try:
            re.compile(pattern)
        except re.error as error:
            return f"{PATTERNS.flag} {pattern!r} is not a regular expression: {error}"
    return ""


def validate_tags(value: str) -> str:
    """Return why a list of tags cannot be used; empty when it can."""
    try:
        parse_tags([part for part in value.split(",") if part])
    except InvalidName as objection:
        return str(objection)
    return ""


HUB_ARN = DriverOption(
    flag="--eks-hub-cluster-arn",
    aliases=("--hub-cluster-arn",),
    help="The ARN of the EKS cluster that is the hub; found in the context of a kubeconfig that `aws` wrote.",
    side=Side.HUB,
    paths=((DRIVER_LIST, ENTRY, "hubClusterArn"),),
    required=True,
    validate=validate_arn,
    from_context=lambda context: "" if validate_arn(context) else context,
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
    """Return what creates the roles."""
    return IdentityMode(MODE.read(settings) or IdentityMode.HUB)


def role_tags(settings: Settings) -> Mapping[str, str]:
    """Return the tags for the roles of clusters, beside those that name the cluster."""
    return parse_tags(TAGS.read_list(settings))


def is_allowed_arn(arn: EksClusterArn, settings: Settings) -> bool:
    """Whether one of the patterns matches the whole ARN."""
    return any(re.fullmatch(pattern, str(arn)) for pattern in PATTERNS.read_list(settings))


def hub_account_annotations(settings: Settings) -> Mapping[str, str]:
    """Return what gives the pods of the hub's controller their role, where they make the roles of clusters."""
    if not HUB_ARN.read(settings) or identity_mode(settings) is IdentityMode.ACCEPT:
        return {}
    hub = hub_arn(settings)
    return {ROLE_ANNOTATION: f"arn:{hub.partition}:iam::{hub.account}:role/{hub.name}{CREATOR_SUFFIX}"}
