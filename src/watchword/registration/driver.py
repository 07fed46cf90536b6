"""What a driver of clusters is: two sides that every driver has, and abilities that some have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

from watchword.api.cluster import Cluster
from watchword.api.meta import Object
from watchword.api.sensitive import Sensitive
from watchword.credentials.credential_kind import CredentialKind, HeldCredential
from watchword.credentials.driver import AgentContext, AgentDriver, HubContext, SecretData
from watchword.credentials.driver_options import DriverOption, Settings
from watchword.kube.client import Client
from watchword.registration.hub_connector import ConnectorContext, HubConnector
from watchword.registration.hub_server import HubServer
from watchword.runtime.reconcile import ControllerSpec, Trigger


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
