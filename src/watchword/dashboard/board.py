"""The whole fleet as rows that a browser shows: built from what one person may see, and without secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.admin.forecast import forecast_expiry
from watchword.admin.health import InventoryHealth
from watchword.admin.inventory import build_inventory
from watchword.admin.inventory_rows import AddonRow, ClusterRow, CredentialRow, Inventory
from watchword.admin.recent_events import FleetEvent, collect_fleet_events
from watchword.api.text import escape_text
from watchword.dashboard.next_step import choose_addon_command, choose_cluster_command, choose_credential_command
from watchword.dashboard.pull_secret_rows import decide_pull_secret_rows
from watchword.dashboard.sources import FleetFacts
from watchword.runtime.redaction import redact_text

FORESEEN = timedelta(days=7)
EVENTS_SHOWN = 50
HEALTHS = [{"label": each.label, "attention": each.needs_attention} for each in InventoryHealth]
"""How the rows' numbers for health read."""

Row = dict[str, Any]


class Board(Struct, frozen=True):
    """Every row by its id, as JSON, so that two boards can be compared; and what is left out."""

    rows: Mapping[str, bytes]
    events: bytes
    unseen: bytes
    now: datetime


def build_board(facts: FleetFacts, *, now: datetime) -> Board:
    """Decide about every row from the facts and the instant alone."""
    inventory = build_fleet_inventory(facts, now=now)
    events = collect_fleet_events((*facts.hub.clusters, *facts.hub.addons), facts.events)[-EVENTS_SHOWN:]
    return Board(
        {identity: orjson.dumps(row) for identity, row in _identified(inventory_rows(inventory, now=now))},
        orjson.dumps([event_document(event) for event in reversed(events)]),
        orjson.dumps({name: clean(why) for name, why in sorted(inventory.unseen.items())}),
        now,
    )


def build_fleet_inventory(facts: FleetFacts, *, now: datetime) -> Inventory:
    """Return the inventory of the hub with the pull secrets of its own cluster; the browser brings rows into order."""
    inventory = build_inventory(facts.hub, now=now)
    pull_secrets = decide_pull_secret_rows(facts.pull_secrets, now=now)
    return replace(inventory, credentials=(*inventory.credentials, *pull_secrets))


def inventory_rows(inventory: Inventory, *, now: datetime) -> Iterator[tuple[str, Row]]:
    """Yield each row with an id that it keeps while it lives; ids may repeat."""
    for cluster in inventory.clusters:
        yield f"cluster/{cluster.name}", _cluster(cluster)
    for addon in inventory.addons:
        yield f"add-on/{addon.cluster}/{addon.name}", _addon(addon)
    ending = {id(each.row): each for each in forecast_expiry(inventory, now=now, within=FORESEEN)}
    for credential in inventory.credentials:
        own = credential.subject if not credential.cluster else ""
        soon = ending.get(id(credential))
        row = _credential(credential)
        if soon is not None:
            row |= {"consequence": clean(soon.consequence), "renewalAnnounced": soon.renewed_before}
        yield f"credential/{credential.kind}/{credential.cluster}/{credential.holder}/{own}", row


def _identified(rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Number the ids that repeat: two authorities may have one name while the hub replaces them."""
    seen: Counter[str] = Counter()
    for identity, row in rows:
        seen[identity] += 1
        yield identity if seen[identity] == 1 else f"{identity}#{seen[identity]}", row


def _cluster(row: ClusterRow) -> Row:
    return {
        "table": "cluster",
        "name": clean(row.name),
        "accepted": row.accepted,
        "joined": row.joined,
        "available": row.available,
        "version": clean(row.version),
        **_state(row.health, row.note, choose_cluster_command(row)),
    }


def _addon(row: AddonRow) -> Row:
    return {
        "table": "add-on",
        "cluster": clean(row.cluster),
        "name": clean(row.name),
        "driver": clean(row.driver),
        "credential": row.credential,
        "available": row.available,
        **_state(row.health, row.note, choose_addon_command(row)),
    }


def _credential(row: CredentialRow) -> Row:
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


def _state(health: InventoryHealth, note: str, command: str) -> Row:
    return {"health": int(health), "note": clean(note), "command": clean(command)}


def event_document(event: FleetEvent) -> Row:
    """Return one event as the browser shows it."""
    return {"at": event.at, "about": clean(event.about), "what": clean(event.what), "warning": event.is_warning}


def seconds(instant: datetime | None) -> int | None:
    """Return an instant as the browser counts it: seconds since 1970."""
    return None if instant is None else int(instant.timestamp())


def clean(text: str) -> str:
    """Return text from elsewhere without what looks like a secret, and without characters that reorder a line."""
    return escape_text(redact_text(text)) if text else ""


def changed_rows(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[dict[str, bytes], Sequence[str]]:
    """Return the rows that are new or different, and the ids of those that are gone."""
    put = {identity: row for identity, row in after.items() if before.get(identity) != row}
    return put, [identity for identity in before if identity not in after]
