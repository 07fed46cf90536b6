"""Who holds which credential until when: rows for people and programs, from what a hub knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from watchword.api.addon import Addon, credential_condition
from watchword.api.bootstrap import bootstrap_user
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Object, labels_of
from watchword.api.names import ConditionType, Label, cluster_group
from watchword.api.validity import read_validity
from watchword.discovery.token_secret import TokenRecord
from watchword.drivers.csr.hub import is_pending
from watchword.fleet.health import Health, Life, judge_authority, judge_passing, judge_renewed
from watchword.pki.certificates import Certificate

CLUSTER_CERTIFICATE, ADDON_CERTIFICATE, ADDON_TOKEN = "cluster certificate", "add-on certificate", "add-on token"
JOIN_TOKEN, AUTHORITY = "join token", "hub authority"
GRAVEST_FIRST = (AUTHORITY, CLUSTER_CERTIFICATE, ADDON_CERTIFICATE, ADDON_TOKEN, JOIN_TOKEN)
SELF_RENEWED = frozenset({CLUSTER_CERTIFICATE, ADDON_CERTIFICATE, ADDON_TOKEN})


@dataclass(frozen=True, slots=True)
class HubFacts:
    """What was read from a hub; `unseen` says what could not be read and why."""

    clusters: Sequence[Object] = ()
    addons: Sequence[Object] = ()
    requests: Sequence[Object] = ()
    tokens: Sequence[TokenRecord] = ()
    authorities: Sequence[Certificate] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One cluster and the one thing that it lacks."""

    name: str
    accepted: str
    joined: str
    available: str
    health: Health
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
    health: Health
    note: str = ""


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """One credential: what it is, whose, until when, and how it fares."""

    kind: str
    cluster: str  # empty for what is the hub's own
    holder: str
    subject: str
    life: Life
    health: Health
    note: str = ""

    @property
    def next_rotation(self) -> datetime | None:
        """When its holder renews it, at the latest; None for what nobody renews by itself."""
        return self.life.latest_renewal if self.kind in SELF_RENEWED else None


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
        return sum(row.health.is_trouble for rows in (self.clusters, self.addons, self.credentials) for row in rows)


def take_inventory(facts: HubFacts, *, now: datetime) -> Inventory:
    """Decide about every row from the facts and the instant alone."""
    requests = _by_cluster(facts.requests)
    clusters = [(each, requests.get(each["metadata"]["name"], ())) for each in facts.clusters]
    return Inventory(
        sorted((judge_cluster(*each) for each in clusters), key=_cluster_order),
        sorted((judge_addon(each) for each in facts.addons), key=_addon_order),
        sorted(_credentials(facts, clusters, now), key=_credential_order),
        facts.unseen,
    )


def _by_cluster(requests: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for request in requests:
        found.setdefault(labels_of(request).get(Label.CLUSTER_NAME, ""), []).append(request)
    return found


def judge_cluster(obj: Object, requests: Sequence[Object]) -> ClusterRow:
    """Say how far a cluster has come; the requests are those that carry its label."""
    cluster = Cluster.read(obj)
    available = find_condition(obj, ConditionType.AVAILABLE)
    accepted = "yes" if cluster.accepted else "no"
    version = str(((obj.get("status") or {}).get("version") or {}).get("kubernetes") or "")
    health, note = _standing(cluster, available, requests)
    joined = "yes" if is_true(obj, ConditionType.JOINED) else "no"
    return ClusterRow(cluster.name, accepted, joined, _word(available), health, note, version)


def _standing(cluster: Cluster, available: Condition | None, requests: Sequence[Object]) -> tuple[Health, str]:
    if cluster.deleting:
        return Health.PENDING, "being removed"
    granted = find_condition(cluster.object, ConditionType.HUB_ACCEPTED)
    if not cluster.accepted:
        return _outside(cluster, granted, requests)
    if granted is None or granted.status != "True":
        return Health.PENDING, granted.message if granted is not None else "accepted; the hub prepares for it"
    if not is_true(cluster.object, ConditionType.JOINED):
        return Health.PENDING, "accepted; its agent has not taken up its work"
    asked = another_key_asks(cluster.name, requests)
    take_over = f"another key asks for its name: watchword rejoin --take-over --cluster-name {cluster.name}"
    if available is None or available.status != "True":
        heard = available.message if available is not None else "nothing was heard of it"
        return Health.FAILING, f"{heard}; {take_over}" if asked else heard
    return (Health.PENDING, take_over) if asked else (Health.GOOD, "")


def _outside(cluster: Cluster, granted: Condition | None, requests: Sequence[Object]) -> tuple[Health, str]:
    asked = another_key_asks(cluster.name, requests)
    if granted is not None and granted.reason == "HubClusterAdminDenied":
        denied = "denied by the administrator"
        return (Health.PENDING, f"{denied}, and asks to come back") if asked else (Health.GOOD, denied)
    waits = "has asked to join" if asked else "has introduced itself"
    return Health.PENDING, f"{waits}: watchword accept --clusters {cluster.name}"


def another_key_asks(cluster: str, requests: Sequence[Object]) -> bool:
    """Whether somebody who does not hold the cluster's credential waits for one under its name."""
    own = f"{cluster_group(cluster)}:"
    return any(
        is_pending(csr)
        and Label.ADDON_NAME not in labels_of(csr)
        and not str((csr.get("spec") or {}).get("username") or "").startswith(own)
        for csr in requests
    )


def judge_addon(obj: Object) -> AddonRow:
    """Say whether an add-on has what it needs."""
    addon = Addon.read(obj)
    said = credential_condition(addon)
    available = find_condition(obj, ConditionType.ADDON_AVAILABLE)
    health, note = Health.GOOD, ""
    if said is not None and said.status == "False":
        health, note = Health.FAILING, said.message
    elif available is not None and available.status == "False":
        health, note = Health.FAILING, available.message
    elif addon.kube_client is not None and said is None:
        health, note = Health.PENDING, "waits for its credential"
    elif available is not None and available.status == "Unknown":
        health, note = Health.UNKNOWN, available.message
    has = "yes" if said is not None and said.status == "True" else "no"
    return AddonRow(addon.cluster, addon.name, addon.driver, has, _word(available), health, note)


def _credentials(
    facts: HubFacts, clusters: Iterable[tuple[Object, Sequence[Object]]], now: datetime
) -> Iterable[CredentialRow]:
    for authority in facts.authorities:
        life = Life(authority.not_before, authority.not_after)
        yield CredentialRow(AUTHORITY, "", "the hub", authority.common_name, life, judge_authority(life, now=now))
    for record in facts.tokens:
        yield _token_row(record, now)
    for obj, requests in clusters:
        row = judge_cluster_credential(obj, requests, now=now)
        if row is not None:
            yield row
    for obj in facts.addons:
        yield from judge_addon_credential(Addon.read(obj), now=now)


def _token_row(record: TokenRecord, now: datetime) -> CredentialRow:
    life = Life(expires=record.expires)
    note = "never expires: delete it once everybody has joined" if record.expires is None else ""
    subject = f"{bootstrap_user(record.token.id)}{f' ({record.description})' if record.description else ''}"
    return CredentialRow(JOIN_TOKEN, "", "joining clusters", subject, life, judge_passing(life, now=now), note)


def judge_cluster_credential(obj: Object, requests: Sequence[Object], *, now: datetime) -> CredentialRow | None:
    """Judge a cluster's own credential by what its agent reports; None for a cluster that may not have one yet."""
    cluster = Cluster.read(obj)
    said = find_condition(obj, ConditionType.CERTIFICATE_ROTATED)
    if said is None and not is_true(obj, ConditionType.JOINED):
        return None
    life, health, note = _told(said, now)
    if health is Health.UNKNOWN:
        note = note or "its agent does not say how long it lives"
    subject = _last_requester(cluster.name, requests) or cluster_group(cluster.name)
    return CredentialRow(CLUSTER_CERTIFICATE, cluster.name, f"agent of {cluster.name}", subject, life, health, note)


def judge_addon_credential(addon: Addon, *, now: datetime) -> Iterable[CredentialRow]:
    """Judge the credential for the hub of one add-on by what the agent reports."""
    registration = addon.kube_client
    if registration is None:
        return
    life, health, note = _told(credential_condition(addon), now)
    kind = ADDON_TOKEN if addon.driver == "token" else ADDON_CERTIFICATE
    if health is Health.UNKNOWN and not note:
        health, note = Health.PENDING, "not issued yet"
    holder = f"add-on {addon.name} on {addon.cluster}"
    yield CredentialRow(kind, addon.cluster, holder, registration.subject.user, life, health, note)


def _told(said: Condition | None, now: datetime) -> tuple[Life, Health, str]:
    validity = read_validity(said.message) if said is not None else None
    life = Life(validity.issued, validity.expires, validity.renews) if validity is not None else Life()
    if said is not None and said.status == "False":
        return life, Health.FAILING, said.message
    health = judge_renewed(life, now=now)
    return life, health, _advice(health, life)


def _advice(health: Health, life: Life) -> str:
    renewal = life.latest_renewal
    if health is Health.OVERDUE and renewal is not None:
        return f"should have been renewed at {renewal:%Y-%m-%d %H:%M}Z: is its agent running?"
    if health is Health.EXPIRED:
        return "expired: bring it back with `watchword rejoin`"
    return ""


def _last_requester(cluster: str, requests: Sequence[Object]) -> str:
    """Return who last renewed: the API server wrote that name, the cluster could not."""
    prefix = f"{cluster_group(cluster)}:"
    names = [str((csr.get("spec") or {}).get("username") or "") for csr in requests]
    return next((name for name in reversed(names) if name.startswith(prefix)), "")


def _word(condition: Condition | None) -> str:
    return {"True": "yes", "False": "no"}.get(condition.status, "unknown") if condition is not None else "unknown"


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return the key by which people order names: cluster2 stands before cluster10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def _cluster_order(row: ClusterRow) -> tuple[Any, ...]:
    return row.health, natural(row.name)


def _addon_order(row: AddonRow) -> tuple[Any, ...]:
    return row.health, natural(row.cluster), row.name


def _credential_order(row: CredentialRow) -> tuple[Any, ...]:
    ends = row.life.expires.timestamp() if row.life.expires is not None else float("inf")
    return row.health, ends, GRAVEST_FIRST.index(row.kind), natural(row.holder)
