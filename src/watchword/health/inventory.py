"""The inventory of credentials: holder, expiry and health, from the facts of a hub."""

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from watchword.addons.catalog import ADDON_CATALOG
from watchword.api.addon import Addon
from watchword.api.bootstrap import bootstrap_user
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.credential_report import CredentialValidity, parse_validity
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import Annotation, ConditionType, Label, agent_user, cluster_group
from watchword.api.time import rfc3339
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.credentials.driver import CredentialKind
from watchword.credentials.errors import AmbiguousDriver
from watchword.discovery.token_secret import TokenRecord
from watchword.health.facts import HubFacts
from watchword.health.formatting import format_age, format_timestamp
from watchword.health.inventory_rows import (
    AUTHORITY,
    JOIN_TOKEN,
    UNREADABLE,
    AddonRow,
    ClusterRow,
    CredentialRow,
    Inventory,
    decide_pull_secret_rows,
    unreadable_account,
)
from watchword.health.renewal_proof import addon_evidence, cluster_evidence, decide_account_use, decide_row_use
from watchword.health.states import (
    InventoryHealth,
    decide_authority_health,
    decide_cluster_health,
    decide_renewed_health,
    is_accepted,
    is_denied,
)
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import PkiError
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.hub.cluster_lease import lease_patience, renewal_time

LATE_DECISION = timedelta(minutes=1)  # after the end of a lease, until the hub's controllers have said so
Row = TypeVar("Row")
MemberRows: TypeAlias = tuple[Row, CredentialRow | None]


class ExpiringCredential(Struct, frozen=True):
    """One credential that expires within the requested time."""

    row: CredentialRow
    ends: datetime
    renewed_before: bool  # whether its holder has announced to renew it in time

    @property
    def requires_action(self) -> bool:
        """Whether it needs action; join tokens are meant to expire."""
        return not self.renewed_before and self.row.kind != JOIN_TOKEN


def forecast_expiry(inventory: Inventory, *, now: datetime, within: timedelta) -> list[ExpiringCredential]:
    """Return what ends within that time: first what its holder has not announced to renew before, then by when.

    Two credentials that end in the same second keep one order: that of their identity.
    """
    expiring = []
    for row in inventory.credentials:
        ends, renewal = row.validity.expires, row.next_rotation
        if ends is not None and ends < now + within:
            expiring.append(ExpiringCredential(row, ends, renewal is not None and now <= renewal < ends))
    return sorted(expiring, key=lambda each: (not each.requires_action, each.ends, each.row.identity))


def keep_clusters(inventory: Inventory, names: Collection[str] | None) -> Inventory:
    """Return the rows of these clusters; all rows for None."""
    if names is None:
        return inventory
    return replace(
        inventory,
        clusters=[row for row in inventory.clusters if row.name in names],
        addons=[row for row in inventory.addons if row.cluster in names],
        credentials=[row for row in inventory.credentials if row.cluster in names],
    )


def count_unknown_expiry(inventory: Inventory) -> int:
    unknown = (InventoryHealth.UNKNOWN, InventoryHealth.PENDING, InventoryHealth.FAILING)
    return sum(row.validity.expires is None and row.health in unknown for row in inventory.credentials)


CONSEQUENCES = {
    JOIN_TOKEN: "no cluster can join with it any more; joined clusters are not affected",
    AUTHORITY: "clients no longer trust the hub, and its certificates are no longer accepted",
}


def build_inventory(facts: HubFacts, *, now: datetime, catalog: Catalog = CATALOG) -> Inventory:
    requests: dict[str, list[Object]] = {}
    for request in facts.requests:
        requests.setdefault(labels_of(request).get(Label.CLUSTER_NAME, ""), []).append(request)
    leases = {str(lease["metadata"].get("namespace")): lease for lease in facts.leases}

    def of_cluster(obj: Object) -> MemberRows[ClusterRow]:
        own = requests.get(obj["metadata"]["name"], ())
        cluster = with_lease_age(decide_cluster_row(obj, own, catalog), obj, leases.get(obj["metadata"]["name"]), now)
        row = decide_cluster_credential_row(obj, own, now=now, catalog=catalog)
        if row is not None:
            evidence = cluster_evidence(catalog.find_credential(obj), issued_certificates(obj, own))
            row = decide_row_use(row, evidence, facts.usage, now=now)
            if cluster.health in (InventoryHealth.DENIED, InventoryHealth.LEFT):
                row = replace(row, health=cluster.health, note="of no use: the hub gives the cluster no rights")
        return cluster, row

    def of_addon(obj: Object) -> MemberRows[AddonRow]:
        addon = Addon.read(obj)
        row = decide_addon_credential_row(addon, now=now)
        if row is not None:
            evidence = addon_evidence(addon, ADDON_CATALOG.find_credential(addon))
            row = decide_row_use(row, evidence, facts.usage, now=now)
        return decide_addon_row(obj), row

    clusters = list(decide_each(facts.clusters, of_cluster, _unreadable_cluster))
    addons = list(decide_each(facts.addons, of_addon, _unreadable_addon))
    accounts = decide_each(facts.accounts, partial(decide_account_use, facts, now=now), unreadable_account)
    members = (*(row for _, row in clusters), *(row for _, row in addons), *accounts)
    credentials = [*_hub_credentials(facts, now, catalog), *(row for row in members if row is not None)]
    return Inventory(
        sorted((row for row, _ in clusters), key=attrgetter("order")),
        sorted((row for row, _ in addons), key=attrgetter("order")),
        sorted(credentials, key=attrgetter("order")),
        facts.missing,
    )


def decide_each(
    objects: Iterable[Object], decide: Callable[[Object], Row], unreadable: Callable[[Object, str], Row]
) -> Iterator[Row]:
    """Yield what is decided about each object; for one that cannot be read, `unreadable` with the cause."""
    for obj in objects:
        try:
            yield decide(obj)
        except Exception as error:  # noqa: BLE001 - one unexpected object must not hide the others
            # The message of an unexpected error may quote the content of the object: only its type is shown.
            yield unreadable(obj, f"the object cannot be read ({type(error).__name__}): correct or delete it")


def _unreadable_cluster(obj: Object, cause: str) -> MemberRows[ClusterRow]:
    denied = Annotation.DENIED_ON in annotations_of(obj)
    accepted = "yes" if is_accepted(obj) else "denied" if denied else "no"
    return ClusterRow(obj["metadata"]["name"], accepted, UNREADABLE, "unknown", InventoryHealth.FAILING, cause), None


def _unreadable_addon(obj: Object, cause: str) -> MemberRows[AddonRow]:
    key = ObjectKey.of(obj)
    return AddonRow(key.namespace, key.name, UNREADABLE, "unknown", "unknown", InventoryHealth.FAILING, cause), None


def decide_cluster_row(obj: Object, requests: Sequence[Object], catalog: Catalog = CATALOG) -> ClusterRow:
    """Return the row of a cluster; the requests are those that carry its label."""
    cluster = Cluster.read(obj)
    available = find_condition(obj, ConditionType.AVAILABLE) if cluster.accepted else None
    accepted = "yes" if cluster.accepted else "denied" if is_denied(obj) else "no"
    version = str(((obj.get("status") or {}).get("version") or {}).get("kubernetes") or "")
    health, note = decide_cluster_health(cluster, requests, catalog.find_hub_report(obj))
    joined = "yes" if is_true(obj, ConditionType.JOINED) else "no"
    return ClusterRow(cluster.name, accepted, joined, _yes_no_unknown(available), health, note, version)


def with_lease_age(row: ClusterRow, obj: Object, lease: Object | None, now: datetime) -> ClusterRow:
    """Distrust a condition that says Available once the lease is older than the hub's controllers would let it be."""
    renewed = renewal_time(lease) if lease is not None else None
    patience = lease_patience(Cluster.read(obj)) + LATE_DECISION
    skips = annotations_of(obj).get(Annotation.SKIP_CLOCK_CHECK) == "true"
    if row.health is not InventoryHealth.GOOD or renewed is None or skips or now - renewed <= patience:
        return row
    note = f"its agent renewed its lease {format_age(now - renewed)} ago"
    return replace(row, health=InventoryHealth.FAILING, note=note, available="unknown")


def decide_addon_row(obj: Object) -> AddonRow:
    addon = Addon.read(obj)
    said = ADDON_CATALOG.find_credential(addon)
    available = find_condition(obj, ConditionType.ADDON_AVAILABLE)
    granted = find_condition(obj, ConditionType.REGISTRATION_APPLIED)
    health, note = InventoryHealth.GOOD, ""
    if granted is not None and granted.status == "False":
        health, note = InventoryHealth.FAILING, f"has no rights on the hub: {granted.message}"
    elif said is not None and said.status == "False":
        health, note = InventoryHealth.FAILING, said.message
    elif available is not None and available.status == "False":
        health, note = InventoryHealth.FAILING, available.message
    elif addon.kube_client is not None and said is None:
        health, note = InventoryHealth.PENDING, "waits for its credential"
    elif available is not None and available.status == "Unknown":
        health, note = InventoryHealth.UNKNOWN, available.message
    has = "yes" if said is not None and said.status == "True" else "no"
    return AddonRow(addon.cluster, addon.name, addon.driver, has, _yes_no_unknown(available), health, note)


def _hub_credentials(facts: HubFacts, now: datetime, catalog: Catalog) -> Iterable[CredentialRow]:
    for authority in facts.authorities:
        validity = CredentialValidity(authority.not_before, authority.not_after)
        health = decide_authority_health(validity, now=now)
        note = "publish its successor beside it in time" if health is InventoryHealth.PENDING else ""
        yield CredentialRow(
            AUTHORITY, "", "the hub", authority.common_name, validity, health, note, CONSEQUENCES[AUTHORITY]
        )
    yield from decide_server_rows(facts.servers, now=now, catalog=catalog)
    for record in facts.tokens:
        yield _token_row(record, now)
    yield from decide_pull_secret_rows(facts.pull_secrets or (), now=now)


def decide_server_rows(published: Sequence[Object], *, now: datetime, catalog: Catalog) -> Iterable[CredentialRow]:
    """Validate the certificates of the servers of drivers, which the hub's controllers renew."""
    found = {ObjectKey.of(obj): obj for obj in published}
    for server in catalog.servers:
        config_map = found.get(server.published, {}) if server.published is not None else {}
        for kind in server.certificates:
            held = kind.read(config_map)
            if held is not None:
                validity = CredentialValidity(held.not_before, held.not_after)
                health = decide_renewed_health(validity, now=now)
                note = "is the hub running? its controllers renew it" if health.needs_attention else ""
                yield CredentialRow(
                    kind.name, "", "the hub", held.common_name, validity, health, note, kind.consequence, renewed=True
                )


def _token_row(record: TokenRecord, now: datetime) -> CredentialRow:
    validity = CredentialValidity(expires=record.expires)
    note = "never expires: delete it once all clusters have joined" if record.expires is None else ""
    if record.expires is not None and record.expires <= now:
        note = "has ended, as it should; the hub's controllers delete it"
    subject = f"{bootstrap_user(record.token.id)}{f' ({record.description})' if record.description else ''}"
    good, consequence = InventoryHealth.GOOD, CONSEQUENCES[JOIN_TOKEN]
    return CredentialRow(JOIN_TOKEN, "", "joining clusters", subject, validity, good, note, consequence)


def decide_cluster_credential_row(
    obj: Object, requests: Sequence[Object], *, now: datetime, catalog: Catalog
) -> CredentialRow | None:
    """Validate a cluster's own credential by what its agent reports; None for a cluster that may not have one yet."""
    cluster = Cluster.read(obj)
    said = catalog.find_credential(obj)
    if said is None and not is_true(obj, ConditionType.JOINED):
        return None
    try:
        kind = catalog.driver_of(obj).credential
    except AmbiguousDriver:
        kind = catalog.by_name[catalog.default].credential
    row = _credential_row(kind, said, cluster=cluster.name, holder=f"agent of {cluster.name}", now=now)
    if row.health is InventoryHealth.UNKNOWN:
        row = replace(row, note=row.note or "its agent does not report its validity")
    return replace(row, subject=find_certificate_subject(obj, requests))


def decide_addon_credential_row(addon: Addon, *, now: datetime) -> CredentialRow | None:
    """Return the row of an add-on's credential for the hub; None when it needs none."""
    if addon.kube_client is None:
        return None
    driver = ADDON_CATALOG.by_name.get(addon.driver) or ADDON_CATALOG.find("")
    holder = f"add-on {addon.name} on {addon.cluster}"
    row = _credential_row(
        driver.credential, ADDON_CATALOG.find_credential(addon), cluster=addon.cluster, holder=holder, now=now
    )
    if row.health is InventoryHealth.UNKNOWN and not row.note:
        row = replace(row, health=InventoryHealth.PENDING, note="not issued yet")
    return replace(row, subject=addon.kube_client.subject.user, addon=addon.name)


def _credential_row(
    kind: CredentialKind, said: Condition | None, *, cluster: str, holder: str, now: datetime
) -> CredentialRow:
    reported = parse_validity(said.message) if said is not None else None
    validity = reported or CredentialValidity()
    health = decide_renewed_health(validity, now=now)
    note = "expired: bring it back with `watchword rejoin`" if health is InventoryHealth.EXPIRED else ""
    if health is InventoryHealth.OVERDUE:
        note = f"is its agent running? The renewal was due at {format_timestamp(validity.latest_renewal)}"
    if said is not None and said.status == "False":
        health, note = InventoryHealth.FAILING, said.message
    elif reported is not None and reported.expires is None:
        health, note = InventoryHealth.GOOD, kind.renewal or "does not expire"
    consequence = kind.consequence.format(cluster=cluster, holder=holder)
    renewed = not kind.renewal
    return CredentialRow(kind.name, cluster, holder, "", validity, health, note, consequence, renewed)


def find_certificate_subject(cluster: Object, requests: Sequence[Object]) -> str:
    """Return whom the cluster's certificate names: the last that was issued, or the owner of the name on record."""
    issued = issued_certificates(cluster, requests)
    if issued:
        return issued[-1].common_name
    name, owner = cluster["metadata"]["name"], read_name_owner(cluster)
    return agent_user(name, owner.agent) if owner is not None else cluster_group(name)


def issued_certificates(cluster: Object, requests: Sequence[Object]) -> Sequence[Certificate]:
    """Return the certificate that was last issued for a cluster's own credential, if its request is still there."""
    prefix = f"{cluster_group(cluster['metadata']['name'])}:"
    for csr in reversed(requests):
        found = read_issued_certificate(csr) if Label.ADDON_NAME not in labels_of(csr) else None
        if found is not None and found.common_name.startswith(prefix):
            return (found,)
    return ()


def read_issued_certificate(csr: Object) -> Certificate | None:
    try:
        return parse_certificate(base64.b64decode((csr.get("status") or {}).get("certificate") or ""))
    except (PkiError, ValueError):
        return None


def _yes_no_unknown(condition: Condition | None) -> str:
    return {"True": "yes", "False": "no"}.get(condition.status, "unknown") if condition is not None else "unknown"


def inventory_document(inventory: Inventory, now: datetime) -> Object:
    clusters = [
        {
            **_member(row),
            "accepted": row.accepted == "yes",
            "denied": row.accepted == "denied",
            "joined": row.joined == "yes",
        }
        for row in inventory.clusters
    ]
    return {
        "clusters": clusters,
        "addOns": [{**_member(row), "credential": row.credential == "yes"} for row in inventory.addons],
        "credentials": [credential_document(row, now) for row in inventory.credentials],
        "problems": inventory.problems,
        "unseen": dict(inventory.unseen),
    }


def _member(row: ClusterRow | AddonRow) -> Object:
    return {**asdict(row), "available": {"yes": True, "no": False}.get(row.available), "health": row.health.label}


def credential_document(row: CredentialRow, now: datetime) -> Object:
    """Return one credential; it never holds the credential itself."""
    left = None if row.validity.expires is None else int((row.validity.expires - now).total_seconds())
    return {
        "kind": row.kind,
        "cluster": row.cluster,
        "holder": row.holder,
        "subject": row.subject,
        "issued": _instant(row.validity.issued),
        "expires": _instant(row.validity.expires),
        "secondsLeft": left,
        "nextRotation": _instant(row.next_rotation),
        "health": row.health.label,
        "note": row.note,
        "use": str(row.use),
        "count": row.count,
    }


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)
