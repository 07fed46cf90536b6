"""Who holds which credential until when: rows for people and programs, from what a hub knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from watchword.admin.health import (
    InventoryHealth,
    decide_authority_health,
    decide_expiring_health,
    decide_renewed_health,
)
from watchword.api.addon import Addon
from watchword.api.bootstrap import bootstrap_user
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.credential_validity import CredentialValidity, parse_validity
from watchword.api.meta import Object, labels_of
from watchword.api.names import ConditionType, Label, cluster_group
from watchword.api.time import parse_rfc3339
from watchword.certificates.approval import is_pending
from watchword.discovery.token_secret import TokenRecord
from watchword.drivers.catalog import CATALOG, Catalog
from watchword.drivers.descriptor import CredentialKind
from watchword.drivers.errors import AmbiguousDriver
from watchword.pki.certificates import Certificate

JOIN_TOKEN, AUTHORITY, ACCOUNT_TOKEN = "join token", "hub authority", "account token"
CONSEQUENCES = {
    ACCOUNT_TOKEN: "programs that use it are refused by the cluster",
    JOIN_TOKEN: "nobody can join by it any more; those who have joined notice nothing",
    AUTHORITY: "nobody trusts the hub any more, and no certificate that it issued is believed",
}


@dataclass(frozen=True, slots=True)
class HubFacts:
    """What was read from a hub; `unseen` says what could not be read and why."""

    clusters: Sequence[Object] = ()
    addons: Sequence[Object] = ()
    requests: Sequence[Object] = ()
    tokens: Sequence[TokenRecord] = ()
    authorities: Sequence[Certificate] = ()
    accounts: Sequence[Object] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster and the one thing that it lacks."""

    name: str
    accepted: str
    joined: str
    available: str
    health: InventoryHealth
    note: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class AddonRow:
    """One add-on on one cluster."""

    cluster: str
    name: str
    driver: str
    credential: str
    available: str
    health: InventoryHealth
    note: str = ""


@dataclass(frozen=True, slots=True)
class CredentialRow:
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

    @property
    def next_rotation(self) -> datetime | None:
        """When its holder renews it, at the latest; None for what is not renewed by itself."""
        return self.validity.latest_renewal if self.renewed else None


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything, what needs attention first."""

    clusters: Sequence[ClusterRow]
    addons: Sequence[AddonRow]
    credentials: Sequence[CredentialRow]
    unseen: Mapping[str, str]

    @property
    def troubles(self) -> int:
        """How many rows somebody has to look at."""
        return sum(
            row.health.needs_attention for rows in (self.clusters, self.addons, self.credentials) for row in rows
        )


def build_inventory(facts: HubFacts, *, now: datetime, catalog: Catalog = CATALOG) -> Inventory:
    """Decide about every row from the facts and the instant alone."""
    requests = _by_cluster(facts.requests)
    clusters = [(each, requests.get(each["metadata"]["name"], ())) for each in facts.clusters]
    return Inventory(
        sorted((decide_cluster_row(*each) for each in clusters), key=_cluster_order),
        sorted((decide_addon_row(each, catalog) for each in facts.addons), key=_addon_order),
        sorted(_credentials(facts, clusters, now, catalog), key=_credential_order),
        facts.unseen,
    )


def _by_cluster(requests: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for request in requests:
        found.setdefault(labels_of(request).get(Label.CLUSTER_NAME, ""), []).append(request)
    return found


def decide_cluster_row(obj: Object, requests: Sequence[Object]) -> ClusterRow:
    """Say how far a cluster has come; the requests are those that carry its label."""
    cluster = Cluster.read(obj)
    available = find_condition(obj, ConditionType.AVAILABLE)
    accepted = "yes" if cluster.accepted else "no"
    version = str(((obj.get("status") or {}).get("version") or {}).get("kubernetes") or "")
    health, note = _cluster_health(cluster, available, requests)
    joined = "yes" if is_true(obj, ConditionType.JOINED) else "no"
    return ClusterRow(cluster.name, accepted, joined, _yes_no_unknown(available), health, note, version)


def _cluster_health(
    cluster: Cluster, available: Condition | None, requests: Sequence[Object]
) -> tuple[InventoryHealth, str]:
    if cluster.deleting:
        return InventoryHealth.PENDING, "being removed"
    granted = find_condition(cluster.object, ConditionType.HUB_ACCEPTED)
    if not cluster.accepted:
        return _unaccepted_cluster_health(cluster, granted, requests)
    if granted is None or granted.status != "True":
        return InventoryHealth.PENDING, granted.message if granted is not None else "accepted; the hub prepares for it"
    if not is_true(cluster.object, ConditionType.JOINED):
        return InventoryHealth.PENDING, "accepted; its agent has not taken up its work"
    asked = is_requested_by_another_key(cluster.name, requests)
    take_over = f"another key asks for its name: watchword rejoin --take-over --cluster-name {cluster.name}"
    if available is None or available.status != "True":
        heard = available.message if available is not None else "nothing was heard of it"
        return InventoryHealth.FAILING, f"{heard}; {take_over}" if asked else heard
    return (InventoryHealth.PENDING, take_over) if asked else (InventoryHealth.GOOD, "")


def _unaccepted_cluster_health(
    cluster: Cluster, granted: Condition | None, requests: Sequence[Object]
) -> tuple[InventoryHealth, str]:
    asked = is_requested_by_another_key(cluster.name, requests)
    if granted is not None and granted.reason == "HubClusterAdminDenied":
        denied = "denied by the administrator"
        return (
            (InventoryHealth.PENDING, f"{denied}, and asks to come back") if asked else (InventoryHealth.GOOD, denied)
        )
    waits = "has asked to join" if asked else "has introduced itself"
    return InventoryHealth.PENDING, f"{waits}: watchword accept --clusters {cluster.name}"


def is_requested_by_another_key(cluster: str, requests: Sequence[Object]) -> bool:
    """Whether somebody who does not hold the cluster's credential waits for one under its name."""
    own = f"{cluster_group(cluster)}:"
    return any(
        is_pending(csr)
        and Label.ADDON_NAME not in labels_of(csr)
        and not str((csr.get("spec") or {}).get("username") or "").startswith(own)
        for csr in requests
    )


def decide_addon_row(obj: Object, catalog: Catalog = CATALOG) -> AddonRow:
    """Say whether an add-on has what it needs."""
    addon = Addon.read(obj)
    said = catalog.addon_credential(addon)
    available = find_condition(obj, ConditionType.ADDON_AVAILABLE)
    health, note = InventoryHealth.GOOD, ""
    if said is not None and said.status == "False":
        health, note = InventoryHealth.FAILING, said.message
    elif available is not None and available.status == "False":
        health, note = InventoryHealth.FAILING, available.message
    elif addon.kube_client is not None and said is None:
        health, note = InventoryHealth.PENDING, "waits for its credential"
    elif available is not None and available.status == "Unknown":
        health, note = InventoryHealth.UNKNOWN, available.message
    has = "yes" if said is not None and said.status == "True" else "no"
    return AddonRow(addon.cluster, addon.name, addon.driver, has, _yes_no_unknown(available), health, note)


def _credentials(
    facts: HubFacts, clusters: Iterable[tuple[Object, Sequence[Object]]], now: datetime, catalog: Catalog
) -> Iterable[CredentialRow]:
    for authority in facts.authorities:
        validity = CredentialValidity(authority.not_before, authority.not_after)
        health = decide_authority_health(validity, now=now)
        yield CredentialRow(
            AUTHORITY, "", "the hub", authority.common_name, validity, health, consequence=CONSEQUENCES[AUTHORITY]
        )
    for record in facts.tokens:
        yield _token_row(record, now)
    for obj, requests in clusters:
        row = decide_cluster_credential_row(obj, requests, now=now, catalog=catalog)
        if row is not None:
            yield row
    for obj in facts.addons:
        yield from decide_addon_credential_rows(Addon.read(obj), now=now, catalog=catalog)
    for obj in facts.accounts:
        yield from decide_account_rows(obj, now=now)


def decide_account_rows(obj: Object, *, now: datetime) -> Iterable[CredentialRow]:
    """Say until when the token of a managed service account lives; nothing before there is one."""
    status = obj.get("status") or {}
    expires = parse_rfc3339(str(status.get("expirationTimestamp") or ""))
    if expires is None:
        return
    secret = status.get("tokenSecretRef") or {}
    issued = parse_rfc3339(str(secret.get("lastRefreshTimestamp") or ""))
    renews = parse_rfc3339(str(status.get("nextRenewalTimestamp") or ""))
    validity = CredentialValidity(issued, expires, renews)
    off = find_condition(obj, ConditionType.ROTATION_SCHEDULED)
    renewed = off is None or off.status != "False"
    decide = decide_renewed_health if renewed else decide_expiring_health
    metadata = obj["metadata"]
    yield CredentialRow(
        ACCOUNT_TOKEN,
        metadata["namespace"],
        f"account {metadata['name']}",
        metadata["name"],
        validity,
        decide(validity, now=now),
        note="" if renewed else "rotation is off",
        consequence=CONSEQUENCES[ACCOUNT_TOKEN],
        renewed=renewed,
    )


def _token_row(record: TokenRecord, now: datetime) -> CredentialRow:
    validity = CredentialValidity(expires=record.expires)
    note = "never expires: delete it once everybody has joined" if record.expires is None else ""
    subject = f"{bootstrap_user(record.token.id)}{f' ({record.description})' if record.description else ''}"
    health, consequence = decide_expiring_health(validity, now=now), CONSEQUENCES[JOIN_TOKEN]
    return CredentialRow(JOIN_TOKEN, "", "joining clusters", subject, validity, health, note, consequence)


def decide_cluster_credential_row(
    obj: Object, requests: Sequence[Object], *, now: datetime, catalog: Catalog
) -> CredentialRow | None:
    """Judge a cluster's own credential by what its agent reports; None for a cluster that may not have one yet."""
    cluster = Cluster.read(obj)
    said = catalog.cluster_credential(obj)
    if said is None and not is_true(obj, ConditionType.JOINED):
        return None
    try:
        kind = catalog.clusters[catalog.driver_of(obj)].credential
    except AmbiguousDriver:
        kind = catalog.clusters[catalog.default].credential
    subject = _last_requester(cluster.name, requests) or cluster_group(cluster.name)
    row = _credential_row(kind, said, cluster=cluster.name, holder=f"agent of {cluster.name}", now=now)
    if row.health is InventoryHealth.UNKNOWN:
        row = replace(row, note=row.note or "its agent does not say how long it lives")
    return replace(row, subject=subject)


def decide_addon_credential_rows(addon: Addon, *, now: datetime, catalog: Catalog) -> Iterable[CredentialRow]:
    """Judge the credential for the hub of one add-on by what the agent reports."""
    if addon.kube_client is None:
        return
    driver = catalog.addons.get(addon.driver) or catalog.addons[catalog.default]
    holder = f"add-on {addon.name} on {addon.cluster}"
    row = _credential_row(
        driver.credential, catalog.addon_credential(addon), cluster=addon.cluster, holder=holder, now=now
    )
    if row.health is InventoryHealth.UNKNOWN and not row.note:
        row = replace(row, health=InventoryHealth.PENDING, note="not issued yet")
    yield replace(row, subject=addon.kube_client.subject.user)


def _credential_row(
    kind: CredentialKind, said: Condition | None, *, cluster: str, holder: str, now: datetime
) -> CredentialRow:
    reported = parse_validity(said.message) if said is not None else None
    validity = reported or CredentialValidity()
    health = decide_renewed_health(validity, now=now)
    note = _advice(health, validity)
    if said is not None and said.status == "False":
        health, note = InventoryHealth.FAILING, said.message
    elif reported is not None and reported.expires is None:
        health, note = InventoryHealth.GOOD, kind.renewal or "does not expire"
    consequence = kind.consequence.format(cluster=cluster, holder=holder)
    renewed = not kind.renewal
    return CredentialRow(kind.name, cluster, holder, "", validity, health, note, consequence, renewed)


def _advice(health: InventoryHealth, validity: CredentialValidity) -> str:
    renewal = validity.latest_renewal
    if health is InventoryHealth.OVERDUE and renewal is not None:
        return f"should have been renewed at {renewal:%Y-%m-%d %H:%M}Z: is its agent running?"
    if health is InventoryHealth.EXPIRED:
        return "expired: bring it back with `watchword rejoin`"
    return ""


def _last_requester(cluster: str, requests: Sequence[Object]) -> str:
    """Return who last renewed: the API server wrote that name, the cluster could not."""
    prefix = f"{cluster_group(cluster)}:"
    names = [str((csr.get("spec") or {}).get("username") or "") for csr in requests]
    return next((name for name in reversed(names) if name.startswith(prefix)), "")


def _yes_no_unknown(condition: Condition | None) -> str:
    return {"True": "yes", "False": "no"}.get(condition.status, "unknown") if condition is not None else "unknown"


def natural_sort_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return the key by which people order names: cluster2 stands before cluster10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def _cluster_order(row: ClusterRow) -> tuple[Any, ...]:
    return row.health, natural_sort_key(row.name)


def _addon_order(row: AddonRow) -> tuple[Any, ...]:
    return row.health, natural_sort_key(row.cluster), row.name


def _credential_order(row: CredentialRow) -> tuple[Any, ...]:
    ends = row.validity.expires.timestamp() if row.validity.expires is not None else float("inf")
    return row.health, ends, _kind_order(row), natural_sort_key(row.holder)


def _kind_order(row: CredentialRow) -> tuple[Any, ...]:
    """Put the hub's authority first, then clusters, add-ons and join tokens."""
    rank = {AUTHORITY: 0, JOIN_TOKEN: 3}.get(row.kind, 2 if row.holder.startswith("add-on ") else 1)
    return rank, row.kind
