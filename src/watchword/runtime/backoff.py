"""The delays between attempts for a failing object."""

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

    def delay(self, failures: int, random: Random) -> float:
        """Return the delay after the latest of so many failures."""
        if self.holds(failures):
            return self.backoff.delay(failures - self.after + 1, random)
        return REQUEUE_BACKOFF.delay(failures, random)
