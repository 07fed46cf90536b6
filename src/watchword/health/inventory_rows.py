"""The rows of an inventory, and the order in which people read them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from watchword.accounts.hub.account_guard import ADDON_NOT_ENABLED
from watchword.accounts.metrics import AccountPhase, decide_phase
from watchword.api.accounts import ADDON_NAME, read_token_validity
from watchword.api.conditions import find_condition
from watchword.api.credential_report import CredentialUse, CredentialValidity
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.health.states import InventoryHealth, decide_expiring_health, decide_renewed_health
from watchword.pullsecrets.inventory import PullSecretHealth, PullSecretRow, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret

JOIN_TOKEN, AUTHORITY = "join token", "hub authority"
UNREADABLE = "unreadable"  # in place of what an object says that cannot be read


class ClusterRow(Struct, frozen=True):
    """One cluster and the one thing that it lacks."""

    name: str
    accepted: str
    joined: str
    available: str
    health: InventoryHealth
    note: str = ""
    version: str = ""

    @property
    def order(self) -> tuple[Any, ...]:
        """Puts first what needs attention; no two clusters share it."""
        return self.health, natural_sort_key(self.name)


class AddonRow(Struct, frozen=True):
    """One add-on on one cluster."""

    cluster: str
    name: str
    driver: str
    credential: str
    available: str
    health: InventoryHealth
    note: str = ""

    @property
    def order(self) -> tuple[Any, ...]:
        """Puts first what needs attention; no two add-ons share it."""
        return self.health, natural_sort_key(self.cluster), natural_sort_key(self.name)


class CredentialRow(Struct, frozen=True):
    """One credential: what it is, whose, until when, and its health."""

    kind: str
    cluster: str  # empty for what is the hub's own
    holder: str
    subject: str
    validity: CredentialValidity
    health: InventoryHealth
    note: str = ""
    consequence: str = ""  # what happens when it expires
    renewed: bool = False  # by its holder
    use: CredentialUse = CredentialUse.UNKNOWN  # whether the holder uses the one last issued
    count: int = 1  # how many alike the row stands for; the validity is that of the first to expire
    addon: str = ""  # whose credential it is; empty for all others
    command: str = ""  # what fixes it, where the row alone shows it

    @property
    def next_rotation(self) -> datetime | None:
        """When its holder renews it, at the latest; None for what is not renewed by itself."""
        return self.validity.latest_renewal if self.renewed else None

    @property
    def order(self) -> tuple[Any, ...]:
        """Puts first what needs attention, then what ends first."""
        ends = self.validity.expires.timestamp() if self.validity.expires is not None else float("inf")
        return self.health, ends, self.identity

    @property
    def identity(self) -> tuple[Any, ...]:
        """What no other credential shares: the hub's authority first, then clusters, add-ons and join tokens."""
        rank = {AUTHORITY: 0, JOIN_TOKEN: 3}.get(self.kind, 2 if self.addon else 1)
        return rank, self.kind, natural_sort_key(self.holder), natural_sort_key(self.subject)


class Inventory(Struct, frozen=True):
    """Everything, what needs attention first."""

    clusters: Sequence[ClusterRow]
    addons: Sequence[AddonRow]
    credentials: Sequence[CredentialRow]
    unseen: Mapping[str, str]

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The objects whose content could not be read, with the cause."""
        clusters = {f"cluster {row.name}": row.note for row in self.clusters if row.joined == UNREADABLE}
        addons = {f"add-on {row.name} on {row.cluster}": row.note for row in self.addons if row.driver == UNREADABLE}
        return {**clusters, **addons}

    @property
    def problems(self) -> int:
        """How many clusters, add-ons and credentials need attention."""
        members = sum(row.health.needs_attention for rows in (self.clusters, self.addons) for row in rows)
        return members + sum(row.count for row in self.credentials if row.health.needs_attention)


def natural_sort_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return the key of the natural order of names: cluster2 before cluster10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


ACCOUNT_TOKEN = "account token"  # noqa: S105 - a kind of credential
ACCOUNT_CONSEQUENCE = "programs that use it are refused by the cluster"


def decide_account_row(obj: Object, *, now: datetime) -> CredentialRow | None:
    """Return the token of a managed service account; None for one without a token of its own that lacks nothing."""
    validity, phase = read_token_validity(obj), decide_phase(obj)
    scheduled = find_condition(obj, ConditionType.ROTATION_SCHEDULED)
    renewed = scheduled is None or scheduled.status != "False"
    key = ObjectKey.of(obj)
    health, note = InventoryHealth.GOOD, "" if renewed else "rotation is off"
    if validity is not None:
        health = (decide_renewed_health if renewed else decide_expiring_health)(validity, now=now)
    elif phase is AccountPhase.REPORTED:
        return None
    present, command = find_condition(obj, ConditionType.ALL_ACCOUNTS_PRESENT), ""
    settled = (AccountPhase.REPORTED,) if validity is None else (AccountPhase.REPORTED, AccountPhase.WAITING)
    if phase not in settled and not health.needs_attention:
        health = InventoryHealth.FAILING if phase is AccountPhase.FAILED else InventoryHealth.PENDING
        note = _describe_phase(obj, phase)
        if present is not None and present.reason == ADDON_NOT_ENABLED:
            health = InventoryHealth.PENDING
            command = f"watchword addon enable {ADDON_NAME} -c {key.namespace}"
    return CredentialRow(
        ACCOUNT_TOKEN,
        key.namespace,
        f"account {key.name} in {key.namespace}",
        key.name,
        validity or CredentialValidity(),
        health,
        note,
        consequence=ACCOUNT_CONSEQUENCE,
        renewed=renewed and validity is not None,
        command=command,
    )


def _describe_phase(obj: Object, phase: AccountPhase) -> str:
    if phase is AccountPhase.REVOKING:
        return "deleted, and not confirmed as revoked by its cluster yet"
    told = (find_condition(obj, name) for name in (ConditionType.ALL_ACCOUNTS_PRESENT, ConditionType.TOKEN_REPORTED))
    said = next((each.message for each in told if each is not None and each.status == "False" and each.message), "")
    return said or "no agent has reported its token: is the add-on managed-serviceaccount enabled on its cluster?"


def unreadable_account(obj: Object, cause: str) -> CredentialRow:
    key = ObjectKey.of(obj)
    holder = f"account {key.name} in {key.namespace}"
    return CredentialRow(
        ACCOUNT_TOKEN, key.namespace, holder, key.name, CredentialValidity(), InventoryHealth.FAILING, cause
    )


PULL_SECRET = "pull secret"  # noqa: S105 - a kind of credential
PULL_CONSEQUENCE = "pods of the account can no longer pull from the registry"
LIST = "watchword pull-secrets list"
HEALTH = {
    PullSecretHealth.EXPIRED: InventoryHealth.EXPIRED,
    PullSecretHealth.CORRUPT: InventoryHealth.FAILING,
    PullSecretHealth.EMPTY: InventoryHealth.FAILING,
    PullSecretHealth.OVERDUE: InventoryHealth.OVERDUE,
    PullSecretHealth.NEW: InventoryHealth.GOOD,
    PullSecretHealth.LEGACY: InventoryHealth.GOOD,
    PullSecretHealth.HEALTHY: InventoryHealth.GOOD,
}
CAUSES = {
    PullSecretHealth.EXPIRED: "perhaps `watchword pull-secrets` is not running",
    PullSecretHealth.CORRUPT: "its content cannot be read",
    PullSecretHealth.EMPTY: "no token was issued, and events on it say why",
    PullSecretHealth.OVERDUE: "its renewal is overdue: perhaps `watchword pull-secrets` is not running",
}


def decide_pull_secret_rows(secrets: Sequence[PullSecret], *, now: datetime) -> Iterable[CredentialRow]:
    """Return a row for each state in which there are pull secrets, with the validity of the first one to expire."""
    rows = [pull_secret_row(secret, now=now) for secret in secrets]
    for health in PullSecretHealth:
        alike = [row for row in rows if row.health is health]
        if alike:
            yield _row_of(alike, now)


def _row_of(alike: Sequence[PullSecretRow], now: datetime) -> CredentialRow:
    first = min(alike, key=lambda row: (row.expires_at or now, row.key))
    health = HEALTH[first.health]
    if health is InventoryHealth.GOOD and first.renews_at is not None and first.renews_at <= now:
        health = InventoryHealth.DUE
    legacy, many = first.health is PullSecretHealth.LEGACY, len(alike) > 1
    return CredentialRow(
        PULL_SECRET,
        "",
        f"{len(alike)} service accounts" if many else f"service account {first.key.namespace}/{first.account}",
        "system:serviceaccounts" if many else f"system:serviceaccount:{first.key.namespace}:{first.account}",
        CredentialValidity(first.issued_at, first.expires_at, first.renews_at),
        health,
        _note(first, len(alike)),
        PULL_CONSEQUENCE,
        renewed=not legacy,
        count=len(alike),
    )


def _note(first: PullSecretRow, count: int) -> str:
    which = f"{first.key} and {count - 1} more" if count > 1 else str(first.key)
    if first.health is PullSecretHealth.LEGACY:
        return f"{which}: made from long-lived tokens: kubectl get secrets -A -l openshift.io/legacy-token"
    if first.health is PullSecretHealth.NEW:
        return f"{which}: waits for its first token"
    if first.health is PullSecretHealth.HEALTHY:
        return f"the first to expire is {first.key}" if count > 1 else which
    state = f"{first.health.value}: " if HEALTH[first.health] is InventoryHealth.FAILING else ""
    return f"{state}{which}: {CAUSES[first.health]}; see {LIST} --unhealthy"
