"""What a driver of clusters is: two sides that every driver has, and abilities that some have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.rbac import RbacRule
from watchword.api.sensitive import Sensitive
from watchword.credentials.driver import (
    AgentContext,
    AgentDriver,
    CredentialKind,
    DriverOption,
    HeldCredential,
    HubContext,
    SecretData,
    Settings,
)
from watchword.kube.client import Client
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.registration.hub_connector import ConnectorContext, HubConnector
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Trigger

ROLE_PREFIX = "open-cluster-management:watchword:"


class PublishedCertificate(Struct, frozen=True, kw_only=True):
    """A certificate of a server that the hub publishes, for the inventory; of several the one that ends last counts."""

    name: str  # as the inventory calls it
    field: str  # of the ConfigMap
    consequence: str  # what happens when it expires
    is_authority: bool = False  # one of those that agents trust, not the one that the server shows

    def read(self, published: Object) -> Certificate | None:
        """Return the certificate in the ConfigMap of the server; None when there is none, or it is damaged."""
        pem = str((published.get("data") or {}).get(self.field) or "")
        try:
            return max(split_bundle(pem.encode()), key=lambda each: each.not_after) if pem else None
        except PkiError:
            return None


class HubServer(Struct, frozen=True, kw_only=True):
    """One Deployment with its Service, its account and its rights."""

    name: str  # of Deployment and Service, after that of the ClusterManager
    service_account: str
    port: int
    arguments: tuple[str, ...]  # of the command, without the image
    rules: tuple[RbacRule, ...]  # what it may do on the hub
    signer_rules: tuple[RbacRule, ...] = ()  # what the hub's controllers may do for it, everywhere
    controller_rules: tuple[RbacRule, ...] = ()  # what they may do for it in the hub's namespace
    secrets: Mapping[str, str] = field(default_factory=dict)  # name → mount path
    config_maps: Mapping[str, str] = field(default_factory=dict)  # name → mount path
    published: ObjectKey | None = None  # the ConfigMap with its public certificates
    certificates: tuple[PublishedCertificate, ...] = ()  # what is in there
    exposure: str = ""  # the protocol by which `serverConfiguration.endpointsExposure` names its addresses

    @property
    def published_scope(self) -> WatchScope | None:
        if self.published is None:
            return None
        return WatchScope(self.published.namespace, fields=f"metadata.name={self.published.name}")

    @property
    def role(self) -> str:
        return f"{ROLE_PREFIX}{self.name}"

    @property
    def signer_role(self) -> str:
        return f"{ROLE_PREFIX}{self.name}-signer"

    @property
    def controller_role(self) -> str:
        """The ClusterRole of what they do for it in the hub's namespace, bound there alone."""
        return f"{ROLE_PREFIX}{self.name}-controller"

    @property
    def roles(self) -> Mapping[str, tuple[RbacRule, ...]]:
        rows = {self.role: self.rules, self.signer_role: self.signer_rules, self.controller_role: self.controller_rules}
        return {name: rules for name, rules in rows.items() if rules}


class ClusterDriver(Protocol):
    """One way in which a cluster obtains a credential for the hub. A process makes the side that it runs."""

    name: str
    aliases: tuple[str, ...] = ()
    options: tuple[DriverOption, ...] = ()
    credential: CredentialKind

    def agent(self, context: AgentContext) -> AgentDriver: ...

    def hub(self, context: HubContext) -> HubDriver: ...


class HubDriver(Protocol):
    """Decides whether a cluster's proof is trusted, and what a trusted cluster may do."""

    async def grant(self, cluster: Cluster) -> None:
        """Make the accepted cluster's proof work; the hub writes the RBAC. `NotGranted` until it works."""

    async def revoke(self, cluster: Cluster) -> None:
        """Make it stop working; repeated until it succeeds.

        Called for every cluster that is denied or removed, whichever driver it names: its agent may have changed that.
        """


@runtime_checkable
class AnnotatesCluster(Protocol):
    """A ManagedCluster with any of these annotations registers by this driver. One driver has none: the default."""

    annotations: tuple[str, ...]

    def annotate(self, settings: Settings) -> Mapping[str, str]: ...


@runtime_checkable
class ConnectsToHub(Protocol):
    """Reaches the hub otherwise than by the kubeconfig alone."""

    def connector(self, context: ConnectorContext) -> HubConnector:
        """Return how the hub is reached; `ConfigError` when a library is missing."""


@runtime_checkable
class BringsBootstrapData(Protocol):
    """Stores more in the bootstrap Secret than the kubeconfig."""

    def bootstrap_data(self, settings: Settings, token: Sensitive[str], present: SecretData) -> SecretData:
        """Return it, from the flags of `join`, the bootstrap token and what is stored; `ConfigError` for a bad flag."""


@runtime_checkable
class ReachesServer(Protocol):
    """Reaches a server that the bootstrap Secret names beside the hub's API server."""

    async def find_server_problem(self, data: SecretData) -> str:
        """Return why that server does not answer from here; empty when it does."""


@runtime_checkable
class AnnotatesAgentAccount(Protocol):
    """Needs a ServiceAccount of a certain name and with annotations for the agent."""

    account_suffix: str  # what follows the name of the Klusterlet

    def account_annotations(self, settings: Settings) -> Mapping[str, str]: ...


@runtime_checkable
class AnnotatesHubAccount(Protocol):
    """Needs annotations on the ServiceAccount of the hub's controllers."""

    def hub_account_annotations(self, settings: Settings) -> Mapping[str, str]: ...


@runtime_checkable
class ValidatesSettings(Protocol):
    """Has settings that are good in themselves and may not fit together."""

    def validate_settings(self, settings: Settings) -> str:
        """Return why they do not; empty when they do."""


@runtime_checkable
class ReadsHeldCredential(Protocol):
    """Recognises its credential in a Secret."""

    def read_held(self, data: SecretData) -> HeldCredential | None:
        """Return the facts about it, None when there is none; `CredentialUnreadable` when it is damaged."""


@runtime_checkable
class RequestsCertificate(Protocol):
    """Requests a certificate, which `accept` approves together with the cluster."""

    signer: str  # of the hub's cluster, which `init` tries; empty: the hub's controllers sign

    def read_pending_key(self, data: SecretData) -> str:
        """Return the thumbprint of the key that is to be certified; empty when none waits."""


@runtime_checkable
class KnownByUser(Protocol):
    """The hub knows a cluster by one user: rights are bound to it, and not to the group that certificates contain."""

    def cluster_user(self, cluster: str) -> str: ...


@runtime_checkable
class ReportsHubIdentity(Protocol):
    """Lets the hub make an identity for the cluster, and report how far that is."""

    hub_condition: str  # the type of the condition of the ManagedCluster


@runtime_checkable
class PreparesAcceptance(Protocol):
    """Needs something before a person accepts a cluster."""

    async def prepare_acceptance(self, context: AcceptanceContext) -> None:
        """Make it; `DriverError` when the cluster must not be accepted."""


@runtime_checkable
class DescribesClaim(Protocol):
    """Lets a cluster claim to be something, which the person who accepts it should see."""

    def describe_claim(self, cluster: Object, settings: Settings) -> str:
        """Return what a ManagedCluster claims to be, for a hub with these settings; `DriverError` when it is wrong."""


@runtime_checkable
class NamesJoinFlags(Protocol):
    """Needs flags of `join` that follow from the settings of the hub."""

    def join_flags(self, settings: Settings) -> tuple[str, ...]:
        """Return them; what the cluster alone knows is a placeholder in capitals."""


@runtime_checkable
class WarnsHub(Protocol):
    """Knows of hubs on which other drivers would not work."""

    def warn_beside(self, others: Iterable[ClusterDriver]) -> str:
        """Return what is wrong with a hub that has these drivers, too; empty when nothing is."""


@runtime_checkable
class HasServer(Protocol):
    """Brings a server to the hub, which the operator renders."""

    server: HubServer


@runtime_checkable
class HasReconcilers(Protocol):
    """A hub driver that brings reconcilers of its own, such as the approval of requests."""

    def controllers(self) -> Iterable[ControllerSpec]: ...


@runtime_checkable
class HoldsRemoval(Protocol):
    """A hub driver that made something outside the hub, which a deleted cluster waits for."""

    @property
    def removal_trigger(self) -> Trigger:
        """What changes once something is gone, and the clusters that it concerns."""

    def remaining(self, cluster: Cluster) -> list[str]:
        """Return what is left of it after `revoke`; the ManagedCluster is kept until nothing is."""


@runtime_checkable
class AutoAcceptsClusters(Protocol):
    """A hub driver that can accept a cluster automatically, when the administrator's allow-list contains it."""

    def is_auto_accepted(self, cluster: Cluster) -> bool: ...


class AcceptanceContext(Struct, frozen=True, kw_only=True):
    """What a driver may use when a person accepts a cluster."""

    client: Client  # with the rights of the person
    cluster: Object  # the ManagedCluster
    settings: Settings = field(default_factory=dict)  # of the hub
    dry_run: bool = False
