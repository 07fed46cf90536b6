"""The rows of one object or of several as a browser shows them: encoded once, and without secrets."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.cluster import Cluster
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object
from watchword.api.text import escape_text
from watchword.api.time import parse_rfc3339
from watchword.dashboard.sources import FleetFacts
from watchword.health.finding import CheckResult, Finding, Severity, urgent
from watchword.health.inventory import LATE_DECISION, build_inventory, forecast_expiry
from watchword.health.inventory_rows import (
    HEALTH,
    PULL_SECRET,
    AddonRow,
    ClusterRow,
    CredentialRow,
    Inventory,
)
from watchword.health.recent_events import FleetEvent
from watchword.health.renewal_proof import TAKE_UP_WITHIN
from watchword.health.row_findings import addon_finding, cluster_finding, credential_finding, inventory_findings
from watchword.health.states import AUTHORITY_WARNING_PERIOD, TOLERANCE, InventoryHealth
from watchword.pullsecrets.inventory import FIRST_TOKEN_WITHIN, PullSecretHealth, PullSecretRow, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret
from watchword.pullsecrets.refresh import LATEST
from watchword.registration.hub.cluster_lease import lease_patience, renewal_time
from watchword.runtime.logs import redact_text

CONSEQUENCE = "pods of {account} cannot pull images from the registry"
NOTES = {
    PullSecretHealth.EXPIRED: "expired: is `watchword pull-secrets` running?",
    PullSecretHealth.CORRUPT: "its content cannot be read",
    PullSecretHealth.EMPTY: "no token was issued: events on it say why",
    PullSecretHealth.OVERDUE: "is `watchword pull-secrets` running? The renewal is overdue",
    PullSecretHealth.NEW: "waits for its first token",
    PullSecretHealth.LEGACY: "made from a long-lived token",
    PullSecretHealth.HEALTHY: "",
}


def decide_pull_secret_rows(secrets: Sequence[Object], *, now: datetime) -> Iterable[CredentialRow]:
    """Return a row for each pull secret; the objects are those of the cache, without tokens."""
    read = [PullSecret.read(secret) for secret in secrets]
    return (_row(pull_secret_row(secret, now=now)) for secret in read if secret is not None)


def _row(row: PullSecretRow) -> CredentialRow:
    account = f"{row.key.namespace}/{row.account}"
    return CredentialRow(
        PULL_SECRET,
        "",
        f"account {account}",
        row.key.name,
        CredentialValidity(row.issued_at, row.expires_at, row.renews_at),
        HEALTH[row.health],
        NOTES[row.health],
        CONSEQUENCE.format(account=account),
        renewed=row.renews_at is not None,
    )


AFTERWARDS = timedelta(milliseconds=1)
"""Some decisions change at an instant and others just after it: after this time, all of them have."""


def _lease_ends(cluster: Object, leases: Sequence[Object]) -> Iterator[datetime]:
    for renewed in filter(None, map(renewal_time, leases)):
        yield renewed + lease_patience(Cluster.read(cluster)) + LATE_DECISION


def choose_recheck(
    credentials: Iterable[CredentialRow],
    pull_secrets: Sequence[Object],
    leases: Sequence[datetime] = (),
    *,
    within: timedelta,
    now: datetime,
) -> datetime | None:
    """Return the next instant at which the time alone may change a row, None when there is none."""
    instants = (each for row in credentials for each in _instants(row, within))
    later = (each + AFTERWARDS for each in (*instants, *leases, *_first_tokens(pull_secrets)))
    return min((each for each in later if each > now), default=None)


def _instants(row: CredentialRow, within: timedelta) -> Iterator[datetime]:
    issued, expires, renewal = row.validity.issued, row.validity.expires, row.validity.latest_renewal
    if issued is not None:
        yield issued + TAKE_UP_WITHIN
    if expires is not None:
        yield from (expires - period for period in (timedelta(0), within, AUTHORITY_WARNING_PERIOD, LATEST))
    if renewal is not None:
        yield renewal
        if expires is not None:
            yield renewal + (expires - (issued or renewal)) * TOLERANCE


def _first_tokens(pull_secrets: Sequence[Object]) -> Iterator[datetime]:
    for secret in pull_secrets:
        created = parse_rfc3339(str(secret["metadata"].get("creationTimestamp") or ""))
        if created is not None:
            yield created + FIRST_TOKEN_WITHIN


FORESEEN = timedelta(days=7)
HEALTHS = [{"label": each.label, "attention": each.needs_attention} for each in InventoryHealth]
"""How the rows' numbers for health read."""

RowFields = dict[str, Any]


class Row(Struct, frozen=True, gc=False):
    """One row as it is sent."""

    id: str
    entry: bytes  # its id and its fields, as one entry of a JSON object
    health: int
    expires: int | None = None

    def fields(self) -> RowFields:
        found: RowFields = orjson.loads(b"{%b}" % self.entry)[self.id]
        return found


class DecidedRows(Struct, frozen=True):
    """The rows at one instant, and when the time alone may change them."""

    rows: tuple[Row, ...] = ()
    recheck: datetime | None = None
    findings: tuple[Finding, ...] = ()


def decide_rows(facts: FleetFacts, key: str, *, number: int, now: datetime) -> DecidedRows:
    """Decide about the rows of one object from its facts and the instant alone.

    Their ids consist of the object's key and the number of its source, so that no two objects share one.
    """
    inventory = build_fleet_inventory(facts, now=now)
    seen: Counter[str] = Counter()
    rows = []
    for fields in inventory_rows(inventory, now=now):
        table = fields["table"]
        name = f"{table}/{number}/{key}" if table == "credential" else f"{table}/{key}"
        seen[name] += 1
        name = name if seen[name] == 1 else f"{name}#{seen[name]}"
        entry = b"%b:%b" % (orjson.dumps(name), orjson.dumps(fields))
        rows.append(Row(name, entry, fields["health"], fields.get("expires")))
    leases = [each for cluster in facts.hub.clusters for each in _lease_ends(cluster, facts.hub.leases)]
    recheck = choose_recheck(inventory.credentials, facts.pull_secrets, leases, within=FORESEEN, now=now)
    return DecidedRows(tuple(rows), recheck, tuple(finding for _, finding in inventory_findings(inventory)))


def build_fleet_inventory(facts: FleetFacts, *, now: datetime) -> Inventory:
    """Return the inventory of the hub with the pull secrets of its own cluster; the browser brings rows into order."""
    inventory = build_inventory(facts.hub, now=now)
    pull_secrets = decide_pull_secret_rows(facts.pull_secrets, now=now)
    return replace(inventory, credentials=(*inventory.credentials, *pull_secrets))


def inventory_rows(inventory: Inventory, *, now: datetime) -> Iterator[RowFields]:
    yield from map(_cluster, inventory.clusters)
    yield from map(_addon, inventory.addons)
    ending = {id(each.row): each for each in forecast_expiry(inventory, now=now, within=FORESEEN)}
    for credential in inventory.credentials:
        soon = ending.get(id(credential))
        fields = {
            "table": "credential",
            "kind": clean(credential.kind),
            "cluster": clean(credential.cluster),
            "holder": clean(credential.holder),
            "subject": clean(credential.subject),
            "issued": seconds(credential.validity.issued),
            "expires": seconds(credential.validity.expires),
            "renewal": seconds(credential.next_rotation),
            **_state(credential.health, credential.note, credential_finding(credential)),
        }
        if soon is not None:
            fields |= {"consequence": clean(soon.consequence), "renewalAnnounced": soon.renewed_before}
        yield fields


def _cluster(row: ClusterRow) -> RowFields:
    return {
        "table": "cluster",
        "name": clean(row.name),
        "accepted": row.accepted,
        "joined": row.joined,
        "available": row.available,
        "version": clean(row.version),
        **_state(row.health, row.note, cluster_finding(row)),
    }


def _addon(row: AddonRow) -> RowFields:
    return {
        "table": "add-on",
        "cluster": clean(row.cluster),
        "name": clean(row.name),
        "driver": clean(row.driver),
        "credential": row.credential,
        "available": row.available,
        **_state(row.health, row.note, addon_finding(row)),
    }


def _state(health: InventoryHealth, note: str, finding: Finding | None) -> RowFields:
    if finding is None:
        return {"health": int(health), "note": clean(note), "command": ""}
    return {"health": int(health), "note": clean(note or finding.sentence), "command": clean(finding.command)}


HEALTH_OF = {Severity.FAILURE: InventoryHealth.FAILING, Severity.WARNING: InventoryHealth.PENDING}


def hub_rows(results: Iterable[CheckResult]) -> tuple[Row, ...]:
    """Return a row for each finding about the hub itself; everything else has a row of its own."""
    rows = []
    for number, (check, finding) in enumerate(urgent(results)):
        fields = {"table": "finding", "name": check, **_state(HEALTH_OF[finding.severity], finding.sentence, finding)}
        name = f"finding/{number}"
        rows.append(Row(name, b"%b:%b" % (orjson.dumps(name), orjson.dumps(fields)), fields["health"]))
    return tuple(rows)


def event_document(event: FleetEvent) -> RowFields:
    return {"at": event.at, "about": clean(event.about), "what": clean(event.what), "warning": event.is_warning}


def seconds(instant: datetime | None) -> int | None:
    """Return an instant as the browser counts it: seconds since 1970."""
    return None if instant is None else int(instant.timestamp())


def clean(text: str) -> str:
    """Return text from elsewhere without what looks like a secret, and without characters that reorder a line."""
    return escape_text(redact_text(text)) if text else ""
