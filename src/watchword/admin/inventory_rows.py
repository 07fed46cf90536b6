"""The rows of an inventory, and the order in which people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from watchword.admin.audit_log import CredentialUsage
from watchword.admin.health import InventoryHealth
from watchword.api.credential_use import CredentialUse
from watchword.api.credential_validity import CredentialValidity
from watchword.api.meta import Object, ObjectKey
from watchword.discovery.token_secret import TokenRecord
from watchword.pki.certificates import Certificate
from watchword.pullsecrets.pull_secret import PullSecret

JOIN_TOKEN, AUTHORITY = "join token", "hub authority"
FLEET = ("clusters", "add-ons")
UNKNOWN_KIND = "the server does not know the kind: is this a hub?"


class AccountToken(Struct, frozen=True):
    """Which token the Secret of a managed service account holds, without the token."""

    user: str
    credential_id: str


class HubFacts(Struct, frozen=True):
    """What was read from a hub; `unseen` contains what could not be read and why."""

    clusters: Sequence[Object] = ()
    addons: Sequence[Object] = ()
    requests: Sequence[Object] = ()
    tokens: Sequence[TokenRecord] = ()
    authorities: Sequence[Certificate] = ()
    accounts: Sequence[Object] = ()
    pull_secrets: Sequence[PullSecret] | None = None  # None: they may not be read
    servers: Sequence[Object] = ()  # the ConfigMaps with the certificates of drivers' servers
    unseen: Mapping[str, str] = field(default_factory=dict)
    usage: CredentialUsage | None = None  # by audit logs; None: none were given
    account_tokens: Mapping[ObjectKey, AccountToken] = field(default_factory=dict)  # read only beside audit logs

    @property
    def missing(self) -> Mapping[str, str]:
        """What should have been read and was not: a cluster with pull secrets alone need not be a hub."""
        if not self.pull_secrets or any(self.unseen.get(kind) != UNKNOWN_KIND for kind in FLEET):
            return self.unseen
        return {kind: why for kind, why in self.unseen.items() if kind not in FLEET}


class ClusterRow(Struct, frozen=True):
    """One cluster and the one thing that it lacks."""

    name: str
    accepted: str
    joined: str
    available: str
    health: InventoryHealth
    note: str = ""
    version: str = ""


class AddonRow(Struct, frozen=True):
    """One add-on on one cluster."""

    cluster: str
    name: str
    driver: str
    credential: str
    available: str
    health: InventoryHealth
    note: str = ""


class CredentialRow(Struct, frozen=True):
    """One credential: what it is, whose, until when, and how it fares."""

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

    @property
    def next_rotation(self) -> datetime | None:
        """When its holder renews it, at the latest; None for what is not renewed by itself."""
        return self.validity.latest_renewal if self.renewed else None


class Inventory(Struct, frozen=True):
    """Everything, what needs attention first."""

    clusters: Sequence[ClusterRow]
    addons: Sequence[AddonRow]
    credentials: Sequence[CredentialRow]
    unseen: Mapping[str, str]

    @property
    def troubles(self) -> int:
        """How many clusters, add-ons and credentials need attention."""
        members = sum(row.health.needs_attention for rows in (self.clusters, self.addons) for row in rows)
        return members + sum(row.count for row in self.credentials if row.health.needs_attention)


def natural_sort_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return the key of the natural order of names: cluster2 before cluster10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def cluster_order(row: ClusterRow) -> tuple[Any, ...]:
    """Return the key that puts first what needs attention; no two clusters share it."""
    return row.health, natural_sort_key(row.name)


def addon_order(row: AddonRow) -> tuple[Any, ...]:
    """Return the key that puts first what needs attention; no two add-ons share it."""
    return row.health, natural_sort_key(row.cluster), natural_sort_key(row.name)


def credential_order(row: CredentialRow) -> tuple[Any, ...]:
    """Return the key that puts first what needs attention, then what ends first."""
    ends = row.validity.expires.timestamp() if row.validity.expires is not None else float("inf")
    return row.health, ends, credential_identity(row)


def credential_identity(row: CredentialRow) -> tuple[Any, ...]:
    """Return what no other credential shares: it orders those that end at the same instant."""
    return _kind_order(row), natural_sort_key(row.holder), natural_sort_key(row.subject)


def _kind_order(row: CredentialRow) -> tuple[Any, ...]:
    """Put the hub's authority first, then clusters, add-ons and join tokens."""
    rank = {AUTHORITY: 0, JOIN_TOKEN: 3}.get(row.kind, 2 if row.holder.startswith("add-on ") else 1)
    return rank, row.kind
