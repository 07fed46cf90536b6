"""What a driver is: one complete description of a way to obtain a credential for the hub."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from watchword.api.addon import Addon, AddonSubject, Registration
from watchword.api.conditions import Condition, find_condition
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Manifest, Object, ObjectKey, Resource
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.registration.cloud_trial import CloudTrial
from watchword.registration.hub_connector import ConnectorContext, HubConnector
from watchword.registration.hub_server import HubServer
from watchword.registration.interface import (
    AcceptanceContext,
    AgentContext,
    AgentDriver,
    HubContext,
    HubDriver,
    SecretData,
    WantedCredential,
)
from watchword.registration.kubeconfig_connector import KubeconfigConnector
from watchword.registration.options import DriverOption, Settings
from watchword.runtime.reconcile import ControllerSpec, Reader

DEFAULT_ACCOUNT_SUFFIX = "sa"


class CredentialStatus(Struct, frozen=True):
    """What is known of one credential."""

    good: bool
    reason: str
    message: str


class CredentialCondition(Struct, frozen=True):
    """One condition with which an agent reports a credential."""

    type: str
    reason: str  # while the credential is good
    failed_reason: str = ""  # while it is not; empty: the driver's own reason


class CredentialKind(Struct, frozen=True, kw_only=True):
    """How a driver's credential is reported: conditions on the hub, a row of the inventory."""

    name: str  # as the inventory calls it
    conditions: tuple[CredentialCondition, ...]  # all are written; the first that is found is read
    consequence: str  # what happens when it expires; {cluster} and {holder} are filled in
    renewal: str = ""  # what renews it when the agent does not, as a note for the inventory

    @property
    def condition_types(self) -> tuple[str, ...]:
        """The types of the conditions."""
        return tuple(condition.type for condition in self.conditions)

    def find_condition(self, obj: Object) -> Condition | None:
        """Return what is reported about the credential, None when nothing is."""
        found = (find_condition(obj, type_) for type_ in self.condition_types)
        return next((condition for condition in found if condition is not None), None)

    def report(self, statuses: Iterable[CredentialStatus]) -> tuple[Condition, ...]:
        """Return the conditions that report all credentials of this kind together."""
        known = list(statuses)
        bad = [status for status in known if not status.good]
        message = "; ".join(status.message for status in bad or known)
        if bad:
            reason = bad[0].reason
            return tuple(Condition.false(each.type, each.failed_reason or reason, message) for each in self.conditions)
        return tuple(Condition.true(each.type, each.reason, message) for each in self.conditions)


class HeldCredential(Struct, frozen=True):
    """The facts about the credential in a Secret."""

    subject: str  # empty when unknown
    validity: CredentialValidity
    key: str = ""  # the thumbprint of its public key; empty when it has none


def read_nothing(_data: SecretData) -> HeldCredential | None:
    """Recognise no credential."""
    return None


def no_pending_key(_data: SecretData) -> str:
    """Find no key that waits for a credential."""
    return ""


def no_objection(_settings: Settings) -> str:
    """Object to nothing."""
    return ""


def no_annotations(_settings: Settings) -> Mapping[str, str]:
    """Add no annotations."""
    return {}


def no_manifests(_settings: Settings) -> Iterable[Manifest]:
    """Bring nothing to the hub."""
    return ()


async def prepare_nothing(_context: AcceptanceContext) -> None:
    """Need nothing before a person accepts a cluster."""


def no_bootstrap_data(_settings: Settings, _token: Sensitive[str], _present: SecretData) -> SecretData:
    """Add nothing to the bootstrap Secret."""
    return {}


async def no_trial_settings(_hub: Client, _server: str, _folder: Path) -> Settings | None:
    """Join without further flags."""
    return {}


def no_controllers(_context: HubContext) -> Iterable[ControllerSpec]:
    """Bring no controllers."""
    return ()


TrialSettings: TypeAlias = Callable[[Client, str, Path], Awaitable[Settings | None]]
"""Given a client of the hub, the address of the driver's server and a folder: the flags of `join` in `watchword up`.

None: the hub is not ready for that yet.
"""

BootstrapData: TypeAlias = Callable[[Settings, Sensitive[str], SecretData], SecretData]
"""Given the flags of `join`, the bootstrap token and the present content: what lies beside the kubeconfig.

Raises `ConfigError` when a flag cannot be used.
"""


class ClusterRegistration(Struct, frozen=True, kw_only=True):
    """How clusters register by a driver."""

    agent: Callable[[AgentContext], AgentDriver]
    hub: Callable[[HubContext], HubDriver]
    credential: CredentialKind
    hub_condition: str = ""  # on the ManagedCluster: how far the identity is that the hub makes; empty: it makes none
    annotations: tuple[str, ...] = ()  # a ManagedCluster with any of these registers by this driver
    annotate: Callable[[Settings], Mapping[str, str]] = no_annotations  # what the agent puts on the ManagedCluster
    connector: Callable[[ConnectorContext], HubConnector] = KubeconfigConnector.make  # how the hub is reached
    bootstrap_data: BootstrapData = no_bootstrap_data  # what `join` adds to the bootstrap Secret
    trial_settings: TrialSettings = no_trial_settings  # what `watchword up` joins with
    cloud_trial: CloudTrial | None = None  # the cloud that `watchword up` emulates for it
    account_annotations: Callable[[Settings], Mapping[str, str]] = no_annotations  # for the agent's ServiceAccount
    account_suffix: str = DEFAULT_ACCOUNT_SUFFIX  # of that ServiceAccount: what follows the name of the Klusterlet
    hub_account_annotations: Callable[[Settings], Mapping[str, str]] = no_annotations  # for the hub's ServiceAccount
    validate: Callable[[Settings], str] = no_objection  # why settings that are good in themselves do not fit together
    read_held: Callable[[SecretData], HeldCredential | None] = read_nothing  # for people; `DriverError` when unreadable
    read_pending_key: Callable[[SecretData], str] = no_pending_key  # the thumbprint of the key that is to be certified
    needs_approval: bool = False  # `accept` approves a certificate request together with the cluster
    prepare: Callable[[AcceptanceContext], Awaitable[None]] = prepare_nothing  # before `accept`; `DriverError`: refused
    signer: str = ""  # the signer that its certificates need; `init` tries it
    manifests: Callable[[Settings], Iterable[Manifest]] = no_manifests  # what it brings to the hub: jobs, RBAC
    server: HubServer | None = None  # the server that it brings to the hub; the operator renders it

    def is_named_by(self, annotations: Mapping[str, str]) -> bool:
        """Whether the annotations of a ManagedCluster name this driver."""
        return any(annotations.get(name) for name in self.annotations)


class SubjectObject(Struct, frozen=True, kw_only=True):
    """The object on the hub that must exist before an add-on's subject may have rights, such as a ServiceAccount."""

    resource: Resource
    condition: str  # of the add-on: says why the object is missing
    selector: Callable[[str], str]  # the labels of those of one add-on, or of all when the name is empty
    addons_of: Callable[[Object], list[ObjectKey]]
    is_present: Callable[[Reader, Addon, AddonSubject], bool]  # and was made for this add-on


class AddonRegistration(Struct, frozen=True, kw_only=True):
    """How add-ons register by a driver: subject, request, reports."""

    agent: Callable[[AgentContext], AgentDriver]
    credential: CredentialKind
    default_subject: Callable[[str, str], AddonSubject]  # from cluster and add-on, never from a claim
    is_own_subject: Callable[[str, str, AddonSubject], bool]  # whether the add-on may be that subject
    choose_subject: Callable[[Addon, Registration], AddonSubject]  # what the agent declares
    wanted: Callable[[Addon, Registration], WantedCredential]
    rbac_subject: Callable[[str, str, AddonSubject], Object]  # whom bindings name, for a subject that was compared
    subject_in_reused_name: Callable[[str, str, str], AddonSubject] | None = None  # with the UID of the ManagedCluster
    subject_object: SubjectObject | None = None  # None: a subject needs nothing on the hub
    declared_by_agent: bool = True  # False: agents may leave the subject to the hub, which fills in the default
    by_certificate: bool = False  # requests certificates, also from signers of the add-on's own
    controllers: Callable[[HubContext], Iterable[ControllerSpec]] = no_controllers  # what it needs on the hub


class Driver(Struct, frozen=True, kw_only=True):
    """One way in which a cluster or an add-on obtains a credential for the hub."""

    name: str
    aliases: tuple[str, ...] = ()
    options: tuple[DriverOption, ...] = ()
    cluster: ClusterRegistration | None = None  # None: for add-ons only
    addons: AddonRegistration | None = None  # None: for clusters only

    def is_called(self, name: str) -> bool:
        """Whether the driver has this name or alias."""
        return name == self.name or name in self.aliases
