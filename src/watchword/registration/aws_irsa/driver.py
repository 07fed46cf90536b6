"""Clusters on EKS register with an EKS hub by their IAM roles, without certificates."""

from collections.abc import Iterable, Mapping

from watchword.api.meta import Object, annotations_of
from watchword.api.names import cloud_agent_user
from watchword.api.rbac import RbacRule
from watchword.credentials.driver import (
    AgentContext,
    AgentDriver,
    CredentialCondition,
    CredentialKind,
    HeldCredential,
    HubContext,
    SecretData,
    Settings,
)
from watchword.registration import driver
from watchword.registration.aws_irsa.documents import CREATOR_SUFFIX
from watchword.registration.aws_irsa.options import (
    ANNOTATIONS,
    CLUSTER_OPTIONS,
    HUB_ARN,
    HUB_CLUSTER_ARN,
    HUB_OPTIONS,
    MANAGED_ARN,
    MANAGED_CLUSTER_ARN,
    NAME,
    OCM_MANAGED_ARN,
    OCM_ROLE_SUFFIX,
    READY,
    ROLE_ANNOTATION,
    ClusterPair,
    IdentityMode,
    find_objection,
    find_other_hub,
    hub_arn,
    identity_mode,
    read_claimed_arn,
)
from watchword.registration.driver import ConnectorContext, HubConnector


class AwsIrsaDriver(
    driver.ClusterDriver,
    driver.AnnotatesCluster,
    driver.ConnectsToHub,
    driver.KnownByUser,
    driver.AnnotatesAgentAccount,
    driver.AnnotatesHubAccount,
    driver.ValidatesSettings,
    driver.ReadsHeldCredential,
    driver.ReportsHubIdentity,
    driver.PreparesAcceptance,
    driver.DescribesClaim,
    driver.NamesJoinFlags,
    driver.WarnsHub,
):
    """The hub creates an IAM role for each cluster, which the cluster's own role may assume."""

    name = NAME
    hub_rules = (
        RbacRule("EKS reads there which role is which user", "", ("configmaps",), ("create",)),
        RbacRule("EKS reads there which role is which user", "", ("configmaps",), ("get", "patch"), ("aws-auth",)),
    )
    aliases = ("awsirsa",)  # as Open Cluster Management spells it
    options = (*CLUSTER_OPTIONS, *HUB_OPTIONS)
    credential = CredentialKind(
        name="cluster IAM role",
        conditions=(CredentialCondition("ClusterRoleAssumable", "HubKubeconfigWritten"),),
        consequence="{cluster} is disconnected from the hub: no work, no add-ons, Unknown after five minutes",
        renewal="tokens are renewed by the exec plugin",
    )
    annotations = ANNOTATIONS
    hub_condition = READY
    account_suffix = "registration-sa"  # the one that the trust policy of the design names

    def agent(self, context: AgentContext) -> AgentDriver:
        from watchword.registration.aws_irsa.agent import AwsIrsaAgentDriver

        return AwsIrsaAgentDriver.make(context)

    def hub(self, context: HubContext) -> driver.HubDriver:
        from watchword.registration.aws_irsa.hub import make_hub_driver

        return make_hub_driver(context)

    def annotate(self, settings: Settings) -> Mapping[str, str]:
        pair = ClusterPair.read(settings)
        managed = str(pair.managed)
        return {MANAGED_ARN: managed, OCM_MANAGED_ARN: managed, OCM_ROLE_SUFFIX: pair.identifier}

    def describe_claim(self, cluster: Object, settings: Settings) -> str:
        """Return the ARN that a cluster claims; `InvalidName` when no role can be made for it."""
        annotations, hub = annotations_of(cluster), hub_arn(settings) if HUB_ARN.read(settings) else None
        managed = read_claimed_arn(annotations, hub)
        advice = "" if hub is None else find_other_hub(annotations, hub, managed)
        return f"claims to be EKS cluster {managed}" + (f"; {advice}" if advice else "")

    def join_flags(self, settings: Settings) -> tuple[str, ...]:
        hub = HUB_ARN.read(settings) or "HUB_CLUSTER_ARN"
        arns = (HUB_CLUSTER_ARN.flag, hub, MANAGED_CLUSTER_ARN.flag, "MANAGED_CLUSTER_ARN")
        return ("--registration-auth", NAME, *arns, "--addon-kubeclient-registration-auth", "token")

    def warn_beside(self, others: Iterable[driver.ClusterDriver]) -> str:
        """Return that EKS signs no client certificates, where another driver lets the hub's cluster sign them."""
        signed = [each.name for each in others if isinstance(each, driver.RequestsCertificate) and each.signer]
        if not signed:
            return ""
        return (
            f"EKS signs no client certificates, so clusters cannot register by {' and '.join(signed)} with an EKS hub: "
            f"leave {' and '.join(signed)} out unless this hub runs elsewhere"
        )

    def cluster_user(self, cluster: str) -> str:
        return cloud_agent_user(cluster)

    def connector(self, context: ConnectorContext) -> HubConnector:
        from watchword.registration.aws_irsa.agent import AwsIrsaConnector

        return AwsIrsaConnector.make(context)

    def account_annotations(self, settings: Settings) -> Mapping[str, str]:
        """Return what gives the agent's pods their role; nothing while the settings cannot be used."""
        return {} if self.validate_settings(settings) else {ROLE_ANNOTATION: ClusterPair.read(settings).managed_role}

    def hub_account_annotations(self, settings: Settings) -> Mapping[str, str]:
        """Return what gives the pods of the hub's controller their role, where they make the roles of clusters."""
        if not HUB_ARN.read(settings) or identity_mode(settings) is IdentityMode.ACCEPT:
            return {}
        hub = hub_arn(settings)
        return {ROLE_ANNOTATION: f"arn:{hub.partition}:iam::{hub.account}:role/{hub.name}{CREATOR_SUFFIX}"}

    def validate_settings(self, settings: Settings) -> str:
        return find_objection(ClusterPair.read, settings)

    def read_held(self, data: SecretData) -> HeldCredential | None:
        from watchword.registration.aws_irsa.agent import read_held_entry

        return read_held_entry(data)

    async def prepare_acceptance(self, context: driver.AcceptanceContext) -> None:
        from watchword.registration.aws_irsa.hub import prepare_acceptance

        await prepare_acceptance(context)
