"""Formats times and numbers for people: short, and never more exact than useful."""

from datetime import datetime, timedelta

from watchword.health.inventory_rows import CredentialRow
from watchword.health.states import InventoryHealth
from watchword.pki.keys import PublicKey

FINGERPRINT_LETTERS = 16  # of the SHA-256 of the public key


def format_age(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def format_count(number: int, noun: str) -> str:
    """Return a number of things, one of them without the plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_time_left(expires: datetime | None, now: datetime) -> str:
    """Return how much time is left until an instant."""
    if expires is None:
        return "-"
    return format_age(expires - now) if expires > now else "expired"


def format_renewal(row: CredentialRow, now: datetime) -> str:
    """Return when something is renewed next, or was to be; `within` where only the latest instant is known."""
    renewal = row.next_rotation
    if renewal is None:
        return "-"
    if renewal <= now:
        return "now" if row.health is InventoryHealth.DUE else f"{format_age(now - renewal)} ago"
    return f"{'in' if row.validity.renews is not None else 'within'} {format_age(renewal - now)}"


def format_key(key: PublicKey | str) -> str:
    """Return the fingerprint of a key as every command shows it, so that two sides can be compared."""
    return (key if isinstance(key, str) else key.thumbprint)[:FINGERPRINT_LETTERS]


def format_timestamp(instant: datetime | None) -> str:
    return "-" if instant is None else f"{instant:%Y-%m-%d %H:%M}Z"
