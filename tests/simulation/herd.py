"""Whether the clusters ask a hub that was away one after the other, and not all at the same instant."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from tests.simulation.fleet import SimulatedFleet
from tests.simulation.settings import HOUR, MINUTE

SHORTEST_OUTAGE = MINUTE
WINDOW = 1 / 3600
"""Of the outage so far, up to an hour: clients wait longer and longer before they ask again, so few come so close."""

SMALLEST_FLEET = 8
MOST_AT_ONCE = 1 / 2
"""Of the clusters, in one such window."""


@dataclass
class HerdDetector:
    """Counts the clusters whose requests leave at about the same time, while the hub is away and afterwards."""

    fleet: SimulatedFleet
    _until: timedelta = timedelta(0)  # the end of the window
    _asking: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Count from now on; in a small fleet there is no herd."""
        if len(self.fleet.members) >= SMALLEST_FLEET:
            for member in self.fleet.members.values():
                member.to_hub.on_request = partial(self._asked, member.name)

    def _asked(self, cluster: str) -> None:
        outage = self._outage()
        if outage < SHORTEST_OUTAGE:
            return
        if self.fleet.elapsed >= self._until:
            self._until, self._asking = self.fleet.elapsed + min(outage, HOUR) * WINDOW, set()
        self._asking.add(cluster)
        if len(self._asking) > MOST_AT_ONCE * len(self.fleet.members):
            self.fleet.history.too_frequent["more than half of the clusters ask a hub that was away at once"] = None

    def _outage(self) -> timedelta:
        """Return how long the hub has been away, or was when it just came back; else nothing."""
        hub, now = self.fleet.hub, asyncio.get_running_loop().time()
        if not hub.is_up:
            return timedelta(seconds=now - hub.down_at)
        outage = hub.up_at - hub.down_at
        return timedelta(seconds=outage if now - hub.up_at <= outage / 2 else 0)
