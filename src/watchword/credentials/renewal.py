"""Chooses when a credential is renewed: one instant, the same after every restart."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from msgspec import Struct


class RenewalWindow(Struct, frozen=True):
    """The part of a credential's validity within which it is renewed, as fractions."""

    start: float
    end: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.start < self.end <= 1.0:
            raise ValueError(f"a renewal window lies between 0 and 1 and has a length, not {self.start} to {self.end}")


RENEWAL_WINDOW = RenewalWindow(0.4, 0.8)
"""Wide, because credentials are issued together when a fleet starts, and again when a CA or a signing key changes."""


def choose_renewal_time(
    issued_at: datetime, expires_at: datetime, *, seed: str, window: RenewalWindow = RENEWAL_WINDOW
) -> datetime:
    """Choose the instant of renewal from what was issued.

    The choice depends on its arguments only, so every restart and every reconcile chooses the same; `seed` (a UID,
    a name) spreads credentials that were issued together. An empty or negative validity is due immediately.
    """
    life = expires_at - issued_at
    if life <= timedelta(0):
        return issued_at
    fraction = window.start + (window.end - window.start) * _draw(seed, issued_at, expires_at)
    return issued_at + life * fraction


def _draw(seed: str, issued_at: datetime, expires_at: datetime) -> float:
    text = f"{seed}\n{issued_at.timestamp()}\n{expires_at.timestamp()}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big") / 2**56
