"""What a driver of add-ons is: a credential and the subjects that it may have, and abilities that some have."""

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, runtime_checkable

from msgspec import Struct

from watchword.addons.definition import AddonDefinition
from watchword.api.addon import Addon, AddonSubject, Registration
from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.credentials.driver import (
    AgentContext,
    AgentDriver,
    CredentialKind,
    DriverOption,
    HubContext,
    WantedCredential,
)
from watchword.runtime.reconcile import Reader, Trigger
from watchword.runtime.status import StatusChange


class AddonSubjects(Protocol):
    """The subjects that add-ons may have by one driver."""

    def default(self, cluster: str, addon: str) -> AddonSubject:
        """Return the subject of an add-on: from cluster and add-on, never from a claim."""
        ...

    def is_own(self, cluster: str, addon: str, subject: AddonSubject) -> bool: ...

    def choose(self, addon: Addon, registration: Registration) -> AddonSubject: ...

    def rbac_subject(self, cluster: str, addon: str, subject: AddonSubject) -> Object: ...


class SubjectObject(Struct, frozen=True, kw_only=True):
    """The object on the hub that must exist before an add-on's subject may have rights, such as a ServiceAccount.

    The agent declares the subject before the hub creates the object.
    """

    resource: Resource
    condition: str  # of the add-on: says why the object is missing
    selector: Callable[[str], str]  # the labels of those of one add-on, or of all when the name is empty
    addons_of: Callable[[Object], list[ObjectKey]]
    is_present: Callable[[Reader, Addon, AddonSubject], bool]  # and was made for this add-on


class AddonDriver(Protocol):
    """One way in which add-ons obtain a credential for the hub."""

    name: str  # as ManagedClusterAddOns name it
    options: tuple[DriverOption, ...] = ()  # of agents
    credential: CredentialKind
    subjects: AddonSubjects
    subject_object: SubjectObject | None = None  # where subjects are objects on the hub

    def agent(self, context: AgentContext) -> AgentDriver: ...

    def wanted(self, addon: Addon, registration: Registration) -> WantedCredential: ...


@runtime_checkable
class RequestsAddonCertificate(Protocol):
    """Requests certificates, from signers of the add-on's own, too.

    A certificate cannot be revoked. Where an earlier cluster had the same name, the subject differs from its subject.
    """

    def subject_in_reused_name(self, cluster: str, addon: str, cluster_uid: str) -> AddonSubject: ...


class AddonState(Struct, frozen=True):
    """What a reconcile of an add-on starts from."""

    addon: Addon
    cluster: Cluster | None
    definition: AddonDefinition | None  # None: another manager serves it, or describes it


class StepResult(Struct, frozen=True):
    """What one step of an add-on's reconcile has to say about it."""

    change: StatusChange = StatusChange()
    retry_after: timedelta | None = None
    error: Exception | None = None  # raised once the status is written


class AddonStep(Protocol):
    """One part of what the hub does for an add-on; it acts, and leaves the add-on's status to the reconciler.

    The other steps run although one raises.
    """

    @property
    def triggers(self) -> tuple[Trigger, ...]: ...

    async def run(self, state: AddonState) -> StepResult: ...

    async def remove(self, key: ObjectKey) -> None:
        """Remove what is left of a deleted add-on."""
        ...


@runtime_checkable
class HasHubStep(Protocol):
    """Has a step on the hub besides an add-on's rights and manifests."""

    def hub_step(self, context: HubContext) -> AddonStep: ...
