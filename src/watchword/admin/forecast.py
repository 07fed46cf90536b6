"""What would break in the coming days if nothing were renewed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from watchword.admin.inventory import (
    ADDON_CERTIFICATE,
    ADDON_TOKEN,
    AUTHORITY,
    CLUSTER_CERTIFICATE,
    JOIN_TOKEN,
    CredentialRow,
    Inventory,
)

CONSEQUENCES = {
    CLUSTER_CERTIFICATE: "{cluster} loses touch with the hub: no work, no add-ons, Unknown after five minutes",
    ADDON_CERTIFICATE: "{holder} is refused by the hub",
    ADDON_TOKEN: "{holder} is refused by the hub",
    JOIN_TOKEN: "no cluster can join with it any more; joined clusters are not affected",
    AUTHORITY: "clients no longer trust the hub, and its certificates are no longer accepted",
}


@dataclass(frozen=True, slots=True)
class ExpiringCredential:
    """One credential that expires within the requested time."""

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
    """Whether it needs action; join tokens are meant to expire."""
    return not credential.renewed_before and credential.row.kind != JOIN_TOKEN


def count_unknown_expiry(inventory: Inventory) -> int:
    """Return how many credentials have no known expiry."""
    return sum(row.validity.expires is None and row.kind != JOIN_TOKEN for row in inventory.credentials)


def _expiring_credential(row: CredentialRow, ends: datetime, now: datetime) -> ExpiringCredential:
    renewal = row.next_rotation
    said = CONSEQUENCES[row.kind].format(cluster=row.cluster, holder=row.holder)
    return ExpiringCredential(row, ends, said, renewal is not None and now <= renewal < ends)
