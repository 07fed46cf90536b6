"""What one simulated life looks like before its faults are drawn."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct
from tests.helpers.fault_injection import FaultPlan

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)

BACKGROUND_FAULTS = FaultPlan(fail=0.005, refuse=0.002, lose=0.002, cut=0.001)
"""One request in a hundred goes wrong, every day."""


class SimulationSettings(Struct, frozen=True):
    """The size of a fleet and the length of its life.

    Idle times are stretched, or a month would be a million heartbeats: leases, watch sessions, elections and the
    longest retries are counted in hours, and credentials live for days. What happens, and in which order, is the same.
    """

    seed: int = 0
    clusters: int = 20
    days: int = 30
    quiet: timedelta = timedelta(days=8)  # the end of the run, without any fault: everything has to settle
    lease: timedelta = timedelta(days=3)
    incidents_per_day: float = 2.0  # for the whole fleet
    shortest_life: timedelta = timedelta(days=3)  # of a credential
    longest_life: timedelta = timedelta(days=9)
    background_faults: FaultPlan = BACKGROUND_FAULTS
    check_every: timedelta = timedelta(hours=12)
    steps: int = 2  # in that time: how often consumers use what they have, and reports are compared with servers
    drift: float = 0.0  # seconds that each pass of the loop takes: time also advances while code runs
    pillars: tuple[str, ...] = ()  # besides registration, add-ons and works
    kinds: tuple[str, ...] = ()  # of incidents that are drawn; empty: all that its pillars have

    def __post_init__(self) -> None:
        if self.clusters < 1 or self.days * DAY < self.quiet + DAY:
            raise ValueError(
                f"a simulation has a cluster and lasts longer than its quiet end of {self.quiet.days} days"
            )

    @property
    def length(self) -> timedelta:
        """How long the life is."""
        return self.days * DAY

    @property
    def faults_end(self) -> timedelta:
        """When the last fault is over."""
        return self.length - self.quiet
