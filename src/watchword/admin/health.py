"""How a credential fares, decided from its validity alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import IntEnum

from watchword.api.credential_validity import CredentialValidity

TOLERANCE = 0.05  # of a validity: for retries
AUTHORITY_WARNING_PERIOD = timedelta(days=90)  # before a certificate authority expires, whose replacement takes time


class InventoryHealth(IntEnum):
    """In order of what needs attention first."""

    EXPIRED = 0
    FAILING = 1
    OVERDUE = 2
    PENDING = 3
    UNKNOWN = 4
    DUE = 5
    GOOD = 6

    @property
    def label(self) -> str:
        """How it is shown."""
        return self.name.capitalize()

    @property
    def needs_attention(self) -> bool:
        """Whether it needs attention."""
        return self < InventoryHealth.DUE

    @property
    def is_not_good(self) -> bool:
        """Whether it is anything but well."""
        return self is not InventoryHealth.GOOD


def decide_renewed_health(validity: CredentialValidity, *, now: datetime) -> InventoryHealth:
    """Validate a credential that its holder renews by itself."""
    if validity.expires is None:
        return InventoryHealth.UNKNOWN
    if now >= validity.expires:
        return InventoryHealth.EXPIRED
    renewal = validity.latest_renewal
    if renewal is None or now < renewal:
        return InventoryHealth.GOOD
    whole = validity.expires - (validity.issued or renewal)
    return InventoryHealth.OVERDUE if now >= renewal + whole * TOLERANCE else InventoryHealth.DUE


def decide_authority_health(validity: CredentialValidity, *, now: datetime) -> InventoryHealth:
    """Decide the health of a certificate authority, which is never renewed automatically."""
    if validity.expires is None:
        return InventoryHealth.UNKNOWN
    if now >= validity.expires:
        return InventoryHealth.EXPIRED
    return InventoryHealth.DUE if now >= validity.expires - AUTHORITY_WARNING_PERIOD else InventoryHealth.GOOD


def decide_expiring_health(validity: CredentialValidity, *, now: datetime) -> InventoryHealth:
    """Validate what is meant to expire, as a join token is."""
    return InventoryHealth.EXPIRED if validity.expires is not None and now >= validity.expires else InventoryHealth.GOOD
