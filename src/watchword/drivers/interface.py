"""What a registration driver promises, on either side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from watchword.api.cluster import Cluster
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.kube.client import Client
from watchword.kube.kubeconfig import UserEntry
from watchword.pki.keys import PrivateKey
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import ControllerSpec, Reader


@dataclass(frozen=True, slots=True)
class CredentialSubject:
    """Who the holder of a credential will be."""

    user: str
    groups: tuple[str, ...] = ()
    organization_units: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WantedCredential:
    """One credential that something on this cluster needs: the agent itself, or an add-on."""

    cluster: str
    subject: CredentialSubject
    addon: str = ""  # empty for the agent's own credential
    signer: str = KUBE_CLIENT_SIGNER
    lifetime: timedelta | None = None  # None leaves it to the hub
    service_account: str = ""  # on the hub, for credentials that are tokens
    service_account_uid: str = ""  # the one the hub last reported; empty when it has not
    requester: str = ""  # the user that asks as a joining cluster, when its bootstrap credential tells; empty else
    rotation: str = ""  # the last request for an early renewal; empty when nobody ever asked


SecretData: TypeAlias = Mapping[str, bytes]
"""The content of a Secret, decoded. Never logged, never put in a message."""

ROTATION_KEY = "rotation-request"
"""The key under which a Secret notes which request for an early renewal its credential has honoured."""


def is_renewal_requested(wanted: WantedCredential, held: SecretData) -> bool:
    """Whether somebody asked for an early renewal that has not been begun; compared, for clocks may disagree."""
    return bool(wanted.rotation) and held.get(ROTATION_KEY, b"") != wanted.rotation.encode()


def rotation_data(wanted: WantedCredential) -> dict[str, bytes]:
    """Return what to store with the first step of a renewal, so that the request is honoured once."""
    return {ROTATION_KEY: wanted.rotation.encode()} if wanted.rotation else {}


@dataclass(frozen=True, slots=True)
class ValidCredential:
    """What is held is good; look again at that instant."""

    renew_at: datetime
    expires_at: datetime
    message: str = ""  # for the condition: the same words that were said when it was issued


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A new credential to store. Its life is the one issued, whatever was asked."""

    data: SecretData = field(repr=False)
    issued_at: datetime
    expires_at: datetime
    renew_at: datetime
    message: str = ""  # for the condition: what was issued and until when, never the credential


@dataclass(frozen=True, slots=True)
class Pending:
    """Not yet, and why. `keep` is what must survive a restart meanwhile, such as the key of a pending request."""

    reason: str
    message: str
    recheck: timedelta
    keep: SecretData = field(default_factory=dict, repr=False)
    failed: bool = False  # True: the hub said no, or the request failed; the condition says so


ObtainResult: TypeAlias = ValidCredential | NewCredential | Pending


class AgentDriver(Protocol):
    """Turns a proof this cluster can give into a credential the hub will honour."""

    def user_entry(self) -> UserEntry:
        """Return the user of the kubeconfig that goes with the credential, with files beside it."""
        ...

    def owned_keys(self) -> frozenset[str]:
        """Return the Secret keys that belong to this driver, removed when another takes over."""
        ...

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        """Return until when the credential held is good, without asking anybody; None when it is no good."""
        ...

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        """Take one step towards the credential; waiting is an answer, not an exception."""
        ...


class HubDriver(Protocol):
    """Decides whether a cluster's proof is believed, and what a believed cluster may do."""

    def recognises(self, cluster: Cluster) -> bool:
        """Whether this cluster registers by this driver."""
        ...

    async def grant(self, cluster: Cluster) -> None:
        """Make the accepted cluster's proof work; RBAC is the hub's own business."""
        ...

    async def revoke(self, cluster: Cluster) -> None:
        """Make it stop working; called again and again until it succeeds."""
        ...


class HasReconcilers(Protocol):
    """A hub driver that brings reconcilers of its own, such as the approval of requests."""

    def controllers(self) -> Iterable[ControllerSpec]:
        """Return them as data."""
        ...


class AutoAcceptsClusters(Protocol):
    """A hub driver that can vouch for a cluster without a person, when the administrator's allow-list says so."""

    def is_auto_accepted(self, cluster: Cluster) -> bool:
        """Whether the identity that proved itself for this cluster is on the allow-list."""
        ...


RegistrationValidator: TypeAlias = Callable[[str, str], Awaitable[str | None]]
"""Given a requester and a cluster name: why this requester may not register it, or None."""


@dataclass(frozen=True, slots=True)
class AllowList:
    """Whose first request is approved without a person."""

    enabled: bool = False  # the feature gate ManagedClusterAutoApproval
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def allows(self, user: str, groups: frozenset[str]) -> bool:
        """Whether somebody, as the API server authenticated them, is on the list."""
        return self.enabled and (user in self.users or bool(groups & self.groups))


NewKey: TypeAlias = Callable[[], PrivateKey]
"""Makes a key that nobody else has."""


@dataclass(frozen=True)
class AgentContext:
    """What the agent's side of a driver may use."""

    hub: Client
    reader: Reader  # of the hub: this cluster's requests are in it
    clock: Clock
    new_key: NewKey = PrivateKey.generate


@dataclass(frozen=True)
class HubContext:
    """What the hub's side of a driver may use."""

    reader: Reader
    client: Client
    events: EventRecorder
    clock: Clock
    allow: AllowList
    validate_registration: RegistrationValidator


@dataclass(frozen=True, slots=True)
class DriverEntry:
    """One line of the catalog: a name, its other spellings, and where each side is made.

    A driver without a hub's side is for add-ons alone.
    """

    name: str
    agent: Callable[[AgentContext], AgentDriver]
    hub: Callable[[HubContext], HubDriver] | None = None
    aliases: tuple[str, ...] = ()
    for_addons: bool = False
    signer: str = ""  # whose certificates it lives on; the hub is asked whether it serves that signer
