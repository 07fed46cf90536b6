"""The rows of one object or of several as a browser shows them: encoded once, and without secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.admin.forecast import forecast_expiry
from watchword.admin.health import InventoryHealth
from watchword.admin.inventory import build_inventory
from watchword.admin.inventory_rows import AddonRow, ClusterRow, CredentialRow, Inventory
from watchword.admin.recent_events import FleetEvent
from watchword.api.text import escape_text
from watchword.dashboard.next_step import choose_addon_command, choose_cluster_command, choose_credential_command
from watchword.dashboard.pull_secret_rows import decide_pull_secret_rows
from watchword.dashboard.recheck import choose_recheck
from watchword.dashboard.sources import FleetFacts
from watchword.runtime.redaction import redact_text

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
        """Return what the browser reads."""
        found: RowFields = orjson.loads(b"{%b}" % self.entry)[self.id]
        return found


class DecidedRows(Struct, frozen=True):
    """The rows at one instant, and when the time alone may change them."""

    rows: tuple[Row, ...] = ()
    recheck: datetime | None = None


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
    recheck = choose_recheck(inventory.credentials, facts.pull_secrets, within=FORESEEN, now=now)
    return DecidedRows(tuple(rows), recheck)


def build_fleet_inventory(facts: FleetFacts, *, now: datetime) -> Inventory:
    """Return the inventory of the hub with the pull secrets of its own cluster; the browser brings rows into order."""
    inventory = build_inventory(facts.hub, now=now)
    pull_secrets = decide_pull_secret_rows(facts.pull_secrets, now=now)
    return replace(inventory, credentials=(*inventory.credentials, *pull_secrets))


def inventory_rows(inventory: Inventory, *, now: datetime) -> Iterator[RowFields]:
    """Yield the fields of each row."""
    yield from map(_cluster, inventory.clusters)
    yield from map(_addon, inventory.addons)
    ending = {id(each.row): each for each in forecast_expiry(inventory, now=now, within=FORESEEN)}
    for credential in inventory.credentials:
        soon = ending.get(id(credential))
        fields = _credential(credential)
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
        **_state(row.health, row.note, choose_cluster_command(row)),
    }


def _addon(row: AddonRow) -> RowFields:
    return {
        "table": "add-on",
        "cluster": clean(row.cluster),
        "name": clean(row.name),
        "driver": clean(row.driver),
        "credential": row.credential,
        "available": row.available,
        **_state(row.health, row.note, choose_addon_command(row)),
    }


def _credential(row: CredentialRow) -> RowFields:
    return {
        "table": "credential",
        "kind": clean(row.kind),
        "cluster": clean(row.cluster),
        "holder": clean(row.holder),
        "subject": clean(row.subject),
        "issued": seconds(row.validity.issued),
        "expires": seconds(row.validity.expires),
        "renewal": seconds(row.next_rotation),
        **_state(row.health, row.note, choose_credential_command(row)),
    }


def _state(health: InventoryHealth, note: str, command: str) -> RowFields:
    return {"health": int(health), "note": clean(note), "command": clean(command)}


def event_document(event: FleetEvent) -> RowFields:
    """Return one event as the browser shows it."""
    return {"at": event.at, "about": clean(event.about), "what": clean(event.what), "warning": event.is_warning}


def seconds(instant: datetime | None) -> int | None:
    """Return an instant as the browser counts it: seconds since 1970."""
    return None if instant is None else int(instant.timestamp())


def clean(text: str) -> str:
    """Return text from elsewhere without what looks like a secret, and without characters that reorder a line."""
    return escape_text(redact_text(text)) if text else ""
