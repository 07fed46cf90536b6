"""The delays between attempts for a failing object."""

from __future__ import annotations

from random import Random

from msgspec import Struct

from watchword.kube.backoff import Backoff

REQUEUE_BACKOFF = Backoff(first=0.005, limit=300.0)
"""From five milliseconds to five minutes: most failures are conflicts that the next reconcile resolves."""

QUARANTINE_BACKOFF = Backoff(first=10.0, limit=300.0)
"""For an object whose quick retries failed."""


class Quarantine(Struct, frozen=True):
    """When an object that keeps failing is quarantined: after how many failures, with which longer delays."""

    after: int = 5
    backoff: Backoff = QUARANTINE_BACKOFF
    patience: float = 10.0
    """A change of the object shortens its delay to this, not below: a failing object often changes itself."""

    def holds(self, failures: int) -> bool:
        return failures >= self.after


def choose_requeue_delay(failures: int, random: Random, *, backoff: Backoff, quarantine: Quarantine) -> float:
    if quarantine.holds(failures):
        return quarantine.backoff.delay(failures - quarantine.after + 1, random)
    return backoff.delay(failures, random)
