"""The contract of what obtains a credential: what is wanted, what is held, and what one step returned."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from watchword.api.conditions import Condition, find_condition
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.sensitive import HiddenFields
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import Decision
from watchword.kube.client import Client
from watchword.kube.kubeconfig import UserEntry
from watchword.pki.keys import PrivateKey
from watchword.runtime.cache import Cache
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Reader

Settings: TypeAlias = Mapping[str, str]
"""What is configured about drivers, by flag; the parts of a list are separated by commas."""

AUTO_APPROVAL = "ManagedClusterAutoApproval"
"""The feature gate without which no request is approved, and no cluster accepted, without a person."""

DRIVER_LIST = "registrationDrivers"
"""The list in a ClusterManager with one entry for each driver; at the start of a path it means the driver's entry."""


class Side(Enum):
    """Where an option belongs."""

    CLUSTER = auto()  # flags of `join` and `agent`, fields of the Klusterlet
    JOIN = auto()  # flags of `join` alone: they are stored in the bootstrap Secret
    HUB = auto()  # flags of `init` and `hub`, fields of the ClusterManager


class OptionType(Enum):
    """How an option's value is written in a spec."""

    TEXT = auto()
    NUMBER = auto()
    LIST = auto()


def _nothing(_text: str) -> str:
    return ""


class DriverOption(Struct, frozen=True, kw_only=True):
    """One option: a flag, and the corresponding fields under `spec.registrationConfiguration`."""

    flag: str
    help: str
    side: Side
    paths: tuple[tuple[str, ...], ...] = ()  # all are read, the first is written; empty: it has a flag only
    aliases: tuple[str, ...] = ()
    type: OptionType = OptionType.TEXT
    required: bool = False  # where its driver is chosen
    exposure: str = ""  # the protocol whose hosts in `serverConfiguration.endpointsExposure` are its value
    gate: str = ""  # the feature gate without which it has no effect
    from_context: Callable[[str], str] = _nothing  # what a kubeconfig's context says, for `init`; empty: nothing
    validate: Callable[[str], str] = _nothing  # why a value is refused; empty when it is not
    warn: Callable[[str], str] = _nothing  # why a value is unwise; empty when it is not

    def read(self, settings: Settings) -> str:
        """Return the configured value, empty when there is none: a number that is 0 means the default."""
        value = settings.get(self.flag, "")
        return "" if self.type is OptionType.NUMBER and value == "0" else value

    def read_list(self, settings: Settings) -> tuple[str, ...]:
        return tuple(part for part in self.read(settings).split(",") if part)

    def to_field(self, value: str) -> Any:
        if self.type is OptionType.LIST:
            return [part for part in value.split(",") if part]
        return int(value) if self.type is OptionType.NUMBER else value


def validate_options(options: Iterable[DriverOption], settings: Settings) -> list[str]:
    objections = [option.validate(value) for option in options if (value := option.read(settings))]
    return [objection for objection in objections if objection]


def settings_from_spec(
    options: Iterable[DriverOption], registration: Mapping[str, Any], entry: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return what `spec.registrationConfiguration` configures; `entry` is the driver's own in a ClusterManager."""
    found: dict[str, str] = {}
    for option in options:
        values = [str(part) for path in option.paths for part in _parts(_descend(registration, entry or {}, path))]
        if values:
            found[option.flag] = ",".join(dict.fromkeys(values)) if option.type is OptionType.LIST else values[0]
    return found


def settings_to_spec(options: Iterable[DriverOption], settings: Settings) -> Object:
    """Return the fields under `spec.registrationConfiguration` that configure the same.

    A number that is 0 is written, too: it replaces the one that a spec has.
    """
    spec: Object = {}
    for option in options:
        value = settings.get(option.flag, "")
        if value and option.paths:
            *parents, last = option.paths[0]
            place = spec
            for name in parents:
                place = place.setdefault(name, {})
            place[last] = option.to_field(value)
    return spec


def empty_other_paths(options: Iterable[DriverOption], settings: Settings, registration: Object) -> Object:
    """Return `spec.registrationConfiguration` with an empty value in the other fields of the settings that are named.

    Only the first path of an option is written, and a value that stayed in another one would be read, too. A field
    that is left out stays when another manager applied it, so it is emptied.
    """
    paths = [path for option in options if option.flag in settings for path in option.paths[1:]]
    cleared = {**registration}
    for path in paths:
        cleared = _emptied(cleared, path)
    return cleared


def settings_to_flags(options: Iterable[DriverOption], settings: Settings) -> list[str]:
    """Return the settings as a command line; a list becomes one flag for each part."""
    rows = [
        (option, option.read_list(settings) if option.type is OptionType.LIST else (option.read(settings),))
        for option in options
    ]
    return [f"{option.flag}={value}" for option, values in rows for value in values if value]


def _descend(registration: Mapping[str, Any], entry: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = entry if path[0] == DRIVER_LIST else registration
    for name in path[1:] if path[0] == DRIVER_LIST else path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _emptied(spec: Any, path: Sequence[str]) -> Any:
    if isinstance(spec, list):
        return [_emptied(each, path) for each in spec]
    if not isinstance(spec, Mapping) or path[0] not in spec:
        return spec
    first, *rest = path
    present = spec[first]
    return {**spec, first: _emptied(present, rest) if rest else type(present)()}


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


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

    def report(self, bad: CredentialStatus | None, message: str) -> Condition:
        if bad is None:
            return Condition.true(self.type, self.reason, message)
        return Condition.false(self.type, self.failed_reason or bad.reason, message)


class CredentialKind(Struct, frozen=True, kw_only=True):
    """How a driver's credential is reported: conditions on the hub, a row of the inventory."""

    name: str  # as the inventory calls it
    conditions: tuple[CredentialCondition, ...]  # all are written; the first that is found is read
    consequence: str  # what happens when it expires; {cluster} and {holder} are filled in
    renewal: str = ""  # what renews it when the agent does not, as a note for the inventory

    @property
    def condition_types(self) -> tuple[str, ...]:
        return tuple(condition.type for condition in self.conditions)

    def find_condition(self, obj: Object) -> Condition | None:
        found = (find_condition(obj, type_) for type_ in self.condition_types)
        return next((condition for condition in found if condition is not None), None)

    def report(self, statuses: Iterable[CredentialStatus]) -> tuple[Condition, ...]:
        known = list(statuses)
        bad = [status for status in known if not status.good]
        message = "; ".join(status.message for status in (*bad, *(status for status in known if status.good)))
        return tuple(each.report(bad[0] if bad else None, message) for each in self.conditions)


class HeldCredential(Struct, frozen=True):
    """The facts about the credential in a Secret."""

    subject: str  # empty when unknown
    validity: CredentialValidity
    key: str = ""  # the thumbprint of its public key; empty when it has none


class CredentialSubject(Struct, frozen=True):
    """Whom a server sees in a credential."""

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
    refused: frozenset[str] = frozenset()  # the ids of credentials that the hub refuses


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
