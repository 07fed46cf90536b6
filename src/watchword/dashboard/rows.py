"""The rows of one object or of several as a browser shows them: encoded once, and without secrets."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from watchword.api.cluster import Cluster
from watchword.api.text import escape_text
from watchword.api.time import parse_rfc3339
from watchword.health.facts import HubFacts
from watchword.health.finding import CheckResult, Finding, Severity, urgent
from watchword.health.inventory import LATE_DECISION, build_inventory, forecast_expiry
from watchword.health.inventory_rows import AddonRow, ClusterRow, CredentialRow, Inventory
from watchword.health.recent_events import FleetEvent
from watchword.health.renewal_proof import TAKE_UP_WITHIN
from watchword.health.row_findings import addon_finding, cluster_finding, credential_finding, inventory_findings
from watchword.health.states import AUTHORITY_WARNING_PERIOD, TOLERANCE, InventoryHealth
from watchword.pullsecrets.inventory import FIRST_TOKEN_WITHIN
from watchword.pullsecrets.refresh import LATEST
from watchword.registration.hub.cluster_lease import lease_patience, renewal_time
from watchword.runtime.logs import redact_text

AFTERWARDS = timedelta(milliseconds=1)
"""Some decisions change at an instant and others just after it: after this time, all of them have."""


def choose_recheck(facts: HubFacts, credentials: Iterable[CredentialRow], *, now: datetime) -> datetime | None:
    """Return the next instant at which the time alone may change a row, None when there is none."""
    instants = [each for row in credentials for each in _instants(row)]
    created = (parse_rfc3339(secret.created_at) for secret in facts.pull_secrets or ())
    instants += [each + FIRST_TOKEN_WITHIN for each in created if each is not None]
    for cluster in facts.clusters:
        patience = lease_patience(Cluster.read(cluster)) + LATE_DECISION
        instants += [each + patience for each in map(renewal_time, facts.leases) if each is not None]
    return min((each + AFTERWARDS for each in instants if each + AFTERWARDS > now), default=None)


def _instants(row: CredentialRow) -> Iterator[datetime]:
    issued, expires, renewal = row.validity.issued, row.validity.expires, row.validity.latest_renewal
    if issued is not None:
        yield issued + TAKE_UP_WITHIN
    if expires is not None:
        yield from (expires - period for period in (timedelta(0), FORESEEN, AUTHORITY_WARNING_PERIOD, LATEST))
    if renewal is not None:
        yield renewal
        if expires is not None:
            yield renewal + (expires - (issued or renewal)) * TOLERANCE


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


def decide_rows(facts: HubFacts, key: str, *, number: int, now: datetime) -> DecidedRows:
    """Decide about the rows of one object from its facts and the instant alone.

    Their ids consist of the object's key and the number of its source, so that no two objects share one.
    """
    inventory = build_inventory(facts, now=now)
    seen: Counter[str] = Counter()
    rows = []
    for fields in inventory_rows(inventory, now=now):
        table = fields["table"]
        name = f"{table}/{number}/{key}" if table == "credential" else f"{table}/{key}"
        seen[name] += 1
        name = name if seen[name] == 1 else f"{name}#{seen[name]}"
        entry = b"%b:%b" % (orjson.dumps(name), orjson.dumps(fields))
        rows.append(Row(name, entry, fields["health"], fields.get("expires")))
    recheck = choose_recheck(facts, inventory.credentials, now=now)
    return DecidedRows(tuple(rows), recheck, tuple(finding for _, finding in inventory_findings(inventory)))


def inventory_rows(inventory: Inventory, *, now: datetime) -> Iterator[RowFields]:
    yield from (_member("cluster", row, cluster_finding(row)) for row in inventory.clusters)
    yield from (_member("add-on", row, addon_finding(row)) for row in inventory.addons)
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
            fields |= {"consequence": clean(credential.consequence), "renewalAnnounced": soon.renewed_before}
        yield fields


def _member(table: str, row: ClusterRow | AddonRow, finding: Finding | None) -> RowFields:
    texts = {name: clean(value) for name, value in asdict(row).items() if isinstance(value, str)}
    return {"table": table, **texts, **_state(row.health, row.note, finding)}


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
