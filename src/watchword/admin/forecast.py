"""What would break in the coming days if nothing were renewed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from watchword.admin.health import InventoryHealth
from watchword.admin.inventory import JOIN_TOKEN, CredentialRow, Inventory


@dataclass(frozen=True, slots=True)
class ExpiringCredential:
    """One credential that ends within the time that is asked about."""

    row: CredentialRow
    ends: datetime
    consequence: str
    renewed_before: bool  # whether its holder has announced to renew it in time


def forecast_expiry(inventory: Inventory, *, now: datetime, within: timedelta) -> list[ExpiringCredential]:
    """Return what ends within that time: first what its holder has not announced to renew before, then by when."""
    ending = [
        (row, row.validity.expires)
        for row in inventory.credentials
        if row.validity.expires is not None and row.validity.expires < now + within
    ]
    expiring = [_expiring_credential(row, ends, now) for row, ends in ending]
    return sorted(expiring, key=lambda credential: (not requires_action(credential), credential.ends))


def requires_action(credential: ExpiringCredential) -> bool:
    """Whether somebody has to do something; join tokens are meant to end."""
    return not credential.renewed_before and credential.row.kind != JOIN_TOKEN


def count_unknown_expiry(inventory: Inventory) -> int:
    """Return how many credentials do not say when they end."""
    unknown = (InventoryHealth.UNKNOWN, InventoryHealth.PENDING, InventoryHealth.FAILING)
    return sum(row.validity.expires is None and row.health in unknown for row in inventory.credentials)


def _expiring_credential(row: CredentialRow, ends: datetime, now: datetime) -> ExpiringCredential:
    renewal = row.next_rotation
    return ExpiringCredential(row, ends, row.consequence, renewal is not None and now <= renewal < ends)
