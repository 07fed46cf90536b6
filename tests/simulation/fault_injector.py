"""Makes the incidents of a simulated run happen, and ends them again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.simulation.administrator import DEEDS
from tests.simulation.incidents import Incident, IncidentDefinition
from tests.simulation.pillar import Pillar


@dataclass
class FaultInjector:
    """Plays incidents; several may be under way at once, also to the same cluster."""

    pillars: Sequence[Pillar]
    reached: Counter[tuple[str, str]] = field(default_factory=Counter)  # incident, pillar → how often
    _known: dict[str, tuple[Pillar, IncidentDefinition]] = field(init=False)

    def __post_init__(self) -> None:
        self._known = {kind: (one, found) for one in self.pillars for kind, found in one.incidents().items()}

    async def inject(self, incidents: Iterable[Incident]) -> None:
        """Let everything happen at its time; returns when the last fault is over."""
        async with asyncio.TaskGroup() as group:
            for incident in incidents:
                group.create_task(self._inject_incident(incident), name=str(incident))

    async def _inject_incident(self, incident: Incident) -> None:
        pillar, definition = self._known[incident.kind]
        fleet = pillar.fleet
        await asyncio.sleep((incident.at - fleet.elapsed).total_seconds())
        names = [incident.target] if incident.target else list(fleet.members)
        with fleet.disturbed(names, excuses=definition.row.excuses):
            fleet.history.note("fault", f"{incident} begins")
            touched, deeds = list(pillar.touched(incident)), list[bool]()
            DEEDS.set(deeds)
            async with definition.play(pillar, incident):
                if any(deeds) or not deeds:
                    self.reached.update((incident.kind, name) for name in touched)
                await asyncio.sleep(incident.lasts.total_seconds())
            fleet.history.note("fault", f"{incident} ends")
