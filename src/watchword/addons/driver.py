"""What a driver of add-ons is: a credential and the subjects that it may have, and abilities that some have."""

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from watchword.api.addon import Addon, AddonSubject, Registration
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.credentials.driver import (
    AgentContext,
    AgentDriver,
    CredentialKind,
    DriverOption,
    HubContext,
    WantedCredential,
)
from watchword.runtime.reconcile import ControllerSpec, Reader


class AddonSubjects(Protocol):
    """The subjects that add-ons may have by one driver."""

    def default(self, cluster: str, addon: str) -> AddonSubject:
        """Return the subject of an add-on: from cluster and add-on, never from a claim."""
        ...

    def is_own(self, cluster: str, addon: str, subject: AddonSubject) -> bool: ...

    def choose(self, addon: Addon, registration: Registration) -> AddonSubject: ...

    def rbac_subject(self, cluster: str, addon: str, subject: AddonSubject) -> Object: ...


class AddonDriver(Protocol):
    """One way in which add-ons obtain a credential for the hub."""

    name: str  # as ManagedClusterAddOns name it
    options: tuple[DriverOption, ...] = ()  # of agents
    credential: CredentialKind
    subjects: AddonSubjects

    def agent(self, context: AgentContext) -> AgentDriver: ...

    def wanted(self, addon: Addon, registration: Registration) -> WantedCredential: ...


@runtime_checkable
class RequestsAddonCertificate(Protocol):
    """Requests certificates, from signers of the add-on's own, too.

    A certificate cannot be revoked. Where an earlier cluster had the same name, the subject differs from its subject.
    """

    def subject_in_reused_name(self, cluster: str, addon: str, cluster_uid: str) -> AddonSubject: ...


class SubjectObject(Struct, frozen=True, kw_only=True):
    """The object on the hub that must exist before an add-on's subject may have rights, such as a ServiceAccount."""

    resource: Resource
    condition: str  # of the add-on: says why the object is missing
    selector: Callable[[str], str]  # the labels of those of one add-on, or of all when the name is empty
    addons_of: Callable[[Object], list[ObjectKey]]
    is_present: Callable[[Reader, Addon, AddonSubject], bool]  # and was made for this add-on


@runtime_checkable
class HasSubjectObject(Protocol):
    """Has subjects that are objects on the hub; the agent declares the subject before the hub creates the object."""

    subject_object: SubjectObject


@runtime_checkable
class HasHubControllers(Protocol):
    """Needs controllers on the hub."""

    def controllers(self, context: HubContext) -> Iterable[ControllerSpec]: ...
