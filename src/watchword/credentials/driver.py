"""The contract of what obtains a credential: what is wanted, what is held, and what one step returned."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from watchword.api.meta import Object
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.sensitive import HiddenFields
from watchword.credentials.driver_options import Settings
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import Decision
from watchword.kube.client import Client
from watchword.kube.kubeconfig import UserEntry
from watchword.pki.keys import PrivateKey
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Reader


class CredentialSubject(Struct, frozen=True):
    """The subject of a credential."""

    user: str
    groups: tuple[str, ...] = ()
    organization_units: tuple[str, ...] = ()


class WantedCredential(Struct, frozen=True):
    """One credential that something on this cluster needs: the agent itself, or an add-on."""

    cluster: str
    subject: CredentialSubject
    addon: str = ""  # empty for the agent's own credential
    signer: str = KUBE_CLIENT_SIGNER
    service_account: str = ""  # on the hub, for credentials that are tokens
    service_account_uid: str = ""  # the one the hub last reported; empty when it has not
    requester: str = ""  # the user that asks as a joining cluster, when its bootstrap credential tells; empty else
    rotation: str = ""  # the last request for an early renewal; empty when there was none
    refused_id: str = ""  # of a credential that the hub refuses; empty when it refuses none


SecretData: TypeAlias = Mapping[str, bytes]
"""The content of a Secret, decoded. Never logged, never put in a message."""

KUBECONFIG = "kubeconfig"
"""The key under which a Secret holds the kubeconfig that goes with its credential."""

ENDPOINT_CONFIG = "config.yaml"
"""The key under which a Secret describes an endpoint that is not an API server; its credential is valid only there."""

ROTATION_KEY = "rotation-request"
"""The key under which a Secret notes which request for an early renewal its credential has honoured."""


def honoured_rotation(held: SecretData) -> str:
    """Return the request for an early renewal that the credential in a Secret has honoured; empty without one."""
    return held.get(ROTATION_KEY, b"").decode(errors="replace")


def rotation_data(wanted: WantedCredential) -> dict[str, bytes]:
    """Return what to store with the first step of a renewal, so that the request is honoured once."""
    return {ROTATION_KEY: wanted.rotation.encode()} if wanted.rotation else {}


class ValidCredential(Struct, frozen=True):
    """What is held is good; look again at `renew_at`."""

    renew_at: datetime | None  # None: the agent does not renew it
    expires_at: datetime | None  # None: it does not expire
    message: str = ""  # for the condition: the same words as when it was issued
    issued_at: datetime | None = None  # None: not known
    credential_id: str = ""  # as audit logs name it; empty: not known


class CredentialAssessment(Struct, frozen=True):
    """What becomes of the credential in a Secret, and until when it may be used meanwhile."""

    decision: Decision
    valid: ValidCredential | None  # None: it must not be used


class NewCredential(HiddenFields, frozen=True):
    """A new credential to store. Its validity is the one issued, whatever was requested."""

    hidden = ("data",)

    data: SecretData
    issued_at: datetime
    expires_at: datetime | None  # None: it does not expire
    renew_at: datetime | None  # None: the agent does not renew it
    message: str = ""  # for the condition: what was issued and until when, never the credential
    credential_id: str = ""  # as audit logs name it; empty: not known


class Pending(HiddenFields, frozen=True):
    """Not yet, and why. `keep` is what must survive a restart meanwhile, such as the key of a pending request."""

    hidden = ("keep",)

    reason: str
    message: str
    recheck: timedelta
    keep: SecretData = field(default_factory=dict)
    failed: bool = False  # True: the hub refused, or the request failed; the condition reports it


ObtainResult: TypeAlias = ValidCredential | NewCredential | Pending


class AgentDriver(Protocol):
    """Turns a proof this cluster can give into a credential the hub will honour."""

    def user_entry(self) -> UserEntry: ...

    def owned_keys(self) -> frozenset[str]: ...

    def assess(self, wanted: WantedCredential, held: SecretData) -> ValidCredential | None:
        """Return until when the credential held is good, without any request; None when it must not be used."""
        ...

    async def obtain(self, wanted: WantedCredential, held: SecretData) -> ObtainResult:
        """Take one step towards the credential; waiting is a response, not an exception."""
        ...


RegistrationValidator: TypeAlias = Callable[[str, str], Awaitable[str | None]]
"""Given a requester and a cluster name: why this requester may not register it, or None."""


NewKey: TypeAlias = Callable[[], PrivateKey]
"""Generates a private key."""


class ClusterSubjects(Protocol):
    """Knows the subjects of a cluster's rights: not always its group, when its name had an earlier owner."""

    def subjects(self, cluster: Object) -> list[Object]: ...

    def retired_until(self, name: str) -> datetime | None:
        """Return until when certificates of a deleted cluster of this name may be valid; None when there was none."""
        ...


class AgentContext(Struct, frozen=True, kw_only=True):
    """What the agent's side of a driver may use."""

    hub: Client
    reader: Reader  # of the hub: this cluster's requests are in it
    clock: Clock
    new_key: NewKey = PrivateKey.generate
    settings: Settings = field(default_factory=dict)
    evidence: TokenEvidence = field(default_factory=TokenEvidence)  # what the hub has said of tokens


AutoAcceptance: TypeAlias = Callable[[Object, str], Object]
"""Returns what to merge into a ManagedCluster to accept it for the named driver; empty where that is decided."""


class HubContext(Struct, frozen=True, kw_only=True):
    """What the hub's side of a driver may use."""

    cache: Cache
    client: Client
    events: EventRecorder
    clock: Clock
    validate_registration: RegistrationValidator
    cluster_subjects: ClusterSubjects
    settings: Settings = field(default_factory=dict)
    auto_approval: bool = False  # the feature gate ManagedClusterAutoApproval
    is_certified: Callable[[Object], bool] = lambda _: True  # whether a ManagedCluster registers by certificate
    auto_acceptance: AutoAcceptance = lambda _cluster, _driver: {}
