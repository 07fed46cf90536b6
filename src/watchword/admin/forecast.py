"""What would break in the coming days if nothing were renewed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from watchword.admin.health import InventoryHealth
from watchword.admin.inventory_rows import JOIN_TOKEN, CredentialRow, Inventory, credential_identity


class ExpiringCredential(Struct, frozen=True):
    """One credential that expires within the requested time."""

    row: CredentialRow
    ends: datetime
    consequence: str
    renewed_before: bool  # whether its holder has announced to renew it in time


def forecast_expiry(inventory: Inventory, *, now: datetime, within: timedelta) -> list[ExpiringCredential]:
    """Return what ends within that time: first what its holder has not announced to renew before, then by when.

    Two credentials that end in the same second keep one order: that of `credential_identity`.
    """
    ending = [
        (row, row.validity.expires)
        for row in inventory.credentials
        if row.validity.expires is not None and row.validity.expires < now + within
    ]
    expiring = [_expiring_credential(row, ends, now) for row, ends in ending]
    return sorted(expiring, key=_expiry_order)


def _expiry_order(credential: ExpiringCredential) -> tuple[Any, ...]:
    return not requires_action(credential), credential.ends, credential_identity(credential.row)


def requires_action(credential: ExpiringCredential) -> bool:
    """Whether it needs action; join tokens are meant to expire."""
    return not credential.renewed_before and credential.row.kind != JOIN_TOKEN


def count_unknown_expiry(inventory: Inventory) -> int:
    """Return how many credentials have no known expiry."""
    unknown = (InventoryHealth.UNKNOWN, InventoryHealth.PENDING, InventoryHealth.FAILING)
    return sum(row.validity.expires is None and row.health in unknown for row in inventory.credentials)


def _expiring_credential(row: CredentialRow, ends: datetime, now: datetime) -> ExpiringCredential:
    renewal = row.next_rotation
    return ExpiringCredential(row, ends, row.consequence, renewal is not None and now <= renewal < ends)
