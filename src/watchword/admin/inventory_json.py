"""An inventory as JSON: names that scripts can rely on."""

from __future__ import annotations

from datetime import datetime

from watchword.admin.inventory_rows import AddonRow, ClusterRow, CredentialRow, Inventory
from watchword.api.meta import Object
from watchword.api.time import rfc3339


def inventory_document(inventory: Inventory, now: datetime) -> Object:
    """Return everything, in the order of the tables."""
    return {
        "clusters": [_cluster(row) for row in inventory.clusters],
        "addOns": [_addon(row) for row in inventory.addons],
        "credentials": [credential_document(row, now) for row in inventory.credentials],
        "troubles": inventory.troubles,
        "unseen": dict(inventory.unseen),
    }


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


def _cluster(row: ClusterRow) -> Object:
    return {
        "name": row.name,
        "accepted": row.accepted == "yes",
        "denied": row.accepted == "denied",
        "joined": row.joined == "yes",
        "available": {"yes": True, "no": False}.get(row.available),
        "health": row.health.label,
        "note": row.note,
        "version": row.version,
    }


def _addon(row: AddonRow) -> Object:
    return {
        "cluster": row.cluster,
        "name": row.name,
        "driver": row.driver,
        "credential": row.credential == "yes",
        "available": {"yes": True, "no": False}.get(row.available),
        "health": row.health.label,
        "note": row.note,
    }


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)
