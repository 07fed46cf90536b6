"""What a driver of clusters is: two sides that every driver has, and abilities that some have."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.bootstrap import TOKEN_PATTERN, bootstrap_user
from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.rbac import RbacRule
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.credentials import driver
from watchword.credentials.evidence import connect_with
from watchword.kube.client import Client
from watchword.kube.connect import client_for_context, credentials_of, endpoint_of, make_client
from watchword.kube.credentials import Credential
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, ResolvedContext, UserEntry
from watchword.kube.kubeconfig_files import load_kubeconfig, parse_kubeconfig
from watchword.kube.transport import Transport
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.runtime.informer import WatchScope
from watchword.runtime.reconcile import ControllerSpec, Trigger


class HubConnector(Protocol):
    """Makes transports to one hub."""

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted; `ConfigError` when that is unknown."""

    def has_bootstrap_credential(self) -> bool: ...

    def joining(self) -> Transport:
        """Return a transport as a joining cluster; `ConfigError` when there is no bootstrap credential."""

    def own(self, data: driver.SecretData) -> Transport: ...


class ConnectorContext(HiddenFields, frozen=True, kw_only=True):
    """What a driver may use to reach the hub."""

    hidden = ("environment",)

    cluster: str
    bootstrap: Path | None  # the bootstrap kubeconfig
    settings: driver.Settings = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)  # of the agent


class BootstrapCredential(Struct, frozen=True):
    """What an agent joins with, as far as others may know it."""

    digest: str  # of the whole kubeconfig: changes with it
    cluster_name: str  # of the hub's entry in the kubeconfig: OCM's agent compares it
    requester: str = ""  # the user that the hub will see, when the credential tells; a claim, not a proof


@runtime_checkable
class ReplaceableBootstrap(Protocol):
    """A connector whose bootstrap credential may be replaced while the agent runs."""

    def bootstrap_credential(self) -> BootstrapCredential | None:
        """Return the credential of this moment; None when there is none that can be read."""


@runtime_checkable
class CredentialConnector(Protocol):
    """A connector that can show the API server of the hub another credential than the cluster's own."""

    def with_credential(self, hub: ClusterEntry, credential: Credential) -> Client:
        """Return a client that the caller closes; `ConfigError` when the credential cannot be used."""


@runtime_checkable
class OwnEndpoint(Protocol):
    """A connector that reaches the hub elsewhere than at its API server, and records in the Secret where."""

    def restore_endpoint(self, data: driver.SecretData) -> None: ...

    def endpoint_data(self) -> driver.SecretData:
        """Return what the Secret records of the endpoint in use; nothing while it is unknown."""

    async def check_endpoint(self) -> bool:
        """Adopt a configured endpoint that changed, once it proved itself; return whether another one is in use."""


def endpoint_data_of(connector: HubConnector) -> driver.SecretData:
    """Return what the Secret records of a connector's own endpoint; nothing when it has none."""
    return cast("OwnEndpoint", connector).endpoint_data() if _implements(type(connector), OwnEndpoint) else {}


def bootstrap_credential_of(connector: HubConnector) -> BootstrapCredential | None:
    """Return what a connector joins with at this moment; None when it does not say."""
    if not _implements(type(connector), ReplaceableBootstrap):
        return None
    return cast("ReplaceableBootstrap", connector).bootstrap_credential()


@lru_cache
def _implements(kind: type, protocol: type) -> bool:
    """Whether a class has the methods of a protocol; Python compares them anew for every `isinstance`."""
    return issubclass(kind, protocol)


@dataclasses.dataclass
class KubeconfigConnector:
    """The bootstrap kubeconfig is read anew each time, so that a renewed one is found without a restart."""

    bootstrap: Path | None
    known: ClusterEntry | None = None  # the hub as the Secret last described it
    # The file's last content, and its meaning.
    _read: tuple[bytes, ResolvedContext] | None = dataclasses.field(default=None, repr=False)

    def entry(self) -> ClusterEntry:
        if self.has_bootstrap_credential():
            return _with_ca_data(self._choice().cluster)
        if self.known is None:
            raise ConfigError("nothing says where the hub is: give the agent a bootstrap kubeconfig")
        return self.known

    def has_bootstrap_credential(self) -> bool:
        return self.bootstrap is not None and self.bootstrap.is_file()

    def bootstrap_credential(self) -> BootstrapCredential | None:
        try:
            choice = self._choice()
        except ConfigError:
            return None
        secret = choice.user.token
        token = TOKEN_PATTERN.fullmatch(secret.reveal()) if secret is not None else None
        digest = sha256(self._read[0] if self._read is not None else b"").hexdigest()
        requester = bootstrap_user(token.group(1)) if token is not None else ""
        return BootstrapCredential(digest, choice.cluster_name, requester)

    def joining(self) -> Transport:
        return client_for_context(self._choice()).transport

    def own(self, data: driver.SecretData) -> Transport:
        choice = parse_kubeconfig(data.get(driver.KUBECONFIG, b"")).choose()
        self.known = choice.cluster
        user = user_with_secret_data(choice.user, data)
        if user.plugin is not None or user.certificate_file is not None or user.key_file is not None:
            # `doctor` and `unjoin` run on an administrator's machine, and the cluster wrote the Secret.
            raise ConfigError("the kubeconfig in the Secret names a plugin or files: let the agent write it again")
        return make_client(endpoint_of(choice.cluster), credentials_of(user, choice.cluster)).transport

    def with_credential(self, hub: ClusterEntry, credential: Credential) -> Client:
        return connect_with(endpoint_of(hub))(credential)

    def _choice(self) -> ResolvedContext:
        if self.bootstrap is None:
            raise ConfigError("there is no bootstrap kubeconfig: give the agent one to join with")
        try:
            content = self.bootstrap.read_bytes()
        except OSError as cause:
            raise ConfigError(f"{self.bootstrap} cannot be read: {cause.strerror}") from cause
        if self._read is None or self._read[0] != content:  # reading it takes 0.7 ms, at every step of joining
            self._read = content, load_kubeconfig(self.bootstrap, {}).choose()
        return self._read[1]


def user_with_secret_data(user: UserEntry, data: driver.SecretData) -> UserEntry:
    if user.certificate_file is not None and user.key_file is not None:
        certificate = data.get(user.certificate_file.name, b"")
        key = Sensitive(data.get(user.key_file.name, b""))
        return replace(user, certificate_file=None, key_file=None, certificate_data=certificate, key_data=key)
    if user.token_file is not None:
        token = data.get(user.token_file.name, b"").decode(errors="replace")
        return replace(user, token_file=None, token=Sensitive(token))
    return user


def _with_ca_data(cluster: ClusterEntry) -> ClusterEntry:
    if cluster.ca_data or cluster.ca_file is None:
        return cluster
    try:
        return replace(cluster, ca_data=cluster.ca_file.read_bytes(), ca_file=None)
    except OSError as cause:
        raise ConfigError(f"the hub's certificate authority cannot be read: {cause.strerror}") from cause


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
    options: tuple[driver.DriverOption, ...] = ()
    credential: driver.CredentialKind

    def agent(self, context: driver.AgentContext) -> driver.AgentDriver: ...

    def hub(self, context: driver.HubContext) -> HubDriver: ...


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

    def annotate(self, settings: driver.Settings) -> Mapping[str, str]: ...


@runtime_checkable
class ConnectsToHub(Protocol):
    """Needs more than the kubeconfig to reach the hub."""

    def connector(self, context: ConnectorContext) -> HubConnector:
        """Return how the hub is reached; `ConfigError` when a library is missing."""


@runtime_checkable
class BringsBootstrapData(Protocol):
    """Stores more in the bootstrap Secret than the kubeconfig."""

    def bootstrap_data(
        self, settings: driver.Settings, token: Sensitive[str], present: driver.SecretData
    ) -> driver.SecretData:
        """Return the data, from flags of `join`, bootstrap token and stored data; `ConfigError` for a bad flag."""


@runtime_checkable
class ReachesServer(Protocol):
    """Reaches a server that the bootstrap Secret names beside the hub's API server."""

    async def find_server_problem(self, data: driver.SecretData) -> str:
        """Return why that server does not answer from here; empty when it does."""


@runtime_checkable
class AnnotatesAgentAccount(Protocol):
    """Needs a ServiceAccount of a certain name and with annotations for the agent."""

    account_suffix: str  # what follows the name of the Klusterlet

    def account_annotations(self, settings: driver.Settings) -> Mapping[str, str]: ...


@runtime_checkable
class AnnotatesHubAccount(Protocol):
    """Needs annotations on the ServiceAccount of the hub's controllers, and rights for it."""

    hub_rules: tuple[RbacRule, ...]  # in kube-system

    def hub_account_annotations(self, settings: driver.Settings) -> Mapping[str, str]: ...


@runtime_checkable
class ValidatesSettings(Protocol):
    """Has settings of which some combinations are invalid."""

    def validate_settings(self, settings: driver.Settings) -> str:
        """Return why the combination is invalid; empty when it is valid."""


@runtime_checkable
class ReadsHeldCredential(Protocol):
    """Recognises its credential in a Secret."""

    def read_held(self, data: driver.SecretData) -> driver.HeldCredential | None:
        """Return the facts about it, None when there is none; `CredentialUnreadable` when it is damaged."""


@runtime_checkable
class RequestsCertificate(Protocol):
    """Requests a certificate, which `accept` approves together with the cluster."""

    signer: str  # of the hub's cluster, which `init` tries; empty: the hub's controllers sign

    def read_pending_key(self, data: driver.SecretData) -> str:
        """Return the thumbprint of the key that is to be certified; empty when none waits."""


@runtime_checkable
class KnownByUser(Protocol):
    """Authenticates a cluster as one user: rights are bound to the user, not to the group in certificates."""

    def cluster_user(self, cluster: str) -> str: ...


@runtime_checkable
class ReportsHubIdentity(Protocol):
    """Lets the hub create an identity for the cluster, and report its state in a condition."""

    hub_condition: str  # the type of the condition of the ManagedCluster


@runtime_checkable
class PreparesAcceptance(Protocol):
    """Creates something before an administrator accepts a cluster."""

    async def prepare_acceptance(self, context: AcceptanceContext) -> None:
        """Create it; `DriverError` when the cluster must not be accepted."""


@runtime_checkable
class DescribesClaim(Protocol):
    """Shows what a cluster claims to be to the administrator who accepts it."""

    def describe_claim(self, cluster: Object, settings: driver.Settings) -> str:
        """Return what a ManagedCluster claims to be, for a hub with these settings; `DriverError` when it is wrong."""


@runtime_checkable
class NamesJoinFlags(Protocol):
    """Needs flags of `join` that follow from the settings of the hub."""

    def join_flags(self, settings: driver.Settings) -> tuple[str, ...]:
        """Return the flags; a value that only the cluster knows is a placeholder in capitals."""


@runtime_checkable
class WarnsHub(Protocol):
    """Warns of other drivers that do not work on the same hub."""

    def warn_beside(self, others: Iterable[ClusterDriver]) -> str:
        """Return why a hub that also enables these drivers has a problem; empty when it has none."""


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
    settings: driver.Settings = field(default_factory=dict)  # of the hub
    dry_run: bool = False
