"""Clusters on EKS register with an EKS hub by their IAM roles, without certificates."""

from __future__ import annotations

from watchword.api.lazy_function import LazyFunction
from watchword.registration.aws_irsa.claims import ANNOTATIONS
from watchword.registration.aws_irsa.condition_types import READY
from watchword.registration.aws_irsa.hub_options import HUB_OPTIONS, hub_account_annotations
from watchword.registration.aws_irsa.options import CLUSTER_OPTIONS, account_annotations, annotate, validate_pair
from watchword.registration.aws_irsa.trial import TRIAL
from watchword.registration.descriptor import ClusterRegistration, CredentialCondition, CredentialKind, Driver

DRIVER = Driver(
    name="aws-irsa",
    aliases=("awsirsa",),  # as Open Cluster Management spells it
    options=(*CLUSTER_OPTIONS, *HUB_OPTIONS),
    cluster=ClusterRegistration(
        agent=LazyFunction("watchword.registration.aws_irsa.agent", "AwsIrsaAgentDriver.make"),
        hub=LazyFunction("watchword.registration.aws_irsa.hub", "make_hub_driver"),
        credential=CredentialKind(
            name="cluster IAM role",
            conditions=(CredentialCondition("ClusterRoleAssumable", "HubKubeconfigWritten"),),
            consequence="{cluster} loses touch with the hub: no work, no add-ons, Unknown after five minutes",
            renewal="tokens are renewed by the exec plugin",
        ),
        hub_condition=READY,
        annotations=ANNOTATIONS,
        annotate=annotate,
        connector=LazyFunction("watchword.registration.aws_irsa.connector", "AwsIrsaConnector.make"),
        account_annotations=account_annotations,
        account_suffix="registration-sa",  # the one that the trust policy of the design names
        hub_account_annotations=hub_account_annotations,
        validate=validate_pair,
        prepare=LazyFunction("watchword.registration.aws_irsa.people", "prepare_acceptance"),
        read_held=LazyFunction("watchword.registration.aws_irsa.exec_entry", "read_held_entry"),
        cloud_trial=TRIAL,
    ),
)
