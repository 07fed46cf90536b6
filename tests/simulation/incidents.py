"""The faults of a simulated life: which, when, to whom and for how long, drawn from the seed alone."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, TypeAlias

from msgspec import Struct
from tests.simulation.history import stamp
from tests.simulation.settings import DAY, SimulationSettings


class Incident(Struct, frozen=True):
    """One thing that happens; `amount` says how much or which, where the kind leaves a choice."""

    at: timedelta
    kind: str
    target: str  # a cluster; empty: the hub, or everybody
    lasts: timedelta
    amount: float

    @property
    def when(self) -> str:
        """The instant at which it begins."""
        return stamp(self.at.total_seconds())

    def choose(self, choices: Sequence[Any]) -> Any:
        """Return the choice that the amount stands for."""
        return choices[int(self.amount * len(choices))]

    def __str__(self) -> str:
        lasts = timedelta(seconds=round(self.lasts.total_seconds()))
        return f"{self.kind.replace('_', ' ')}: {self.target or 'everybody'}, for {lasts}"


class IncidentRow(Struct, frozen=True):
    """How often a kind happens beside the others, to whom, and how long it may last."""

    weight: float
    shortest: timedelta
    longest: timedelta
    fleet_wide: bool = False
    excuses: bool = False  # while it lasts a credential may expire; through everything else it is renewed in time
    at_hub: bool = False  # pillars without a program at the hub do not notice it
    crosses: bool = False  # it concerns every pillar in which the cluster takes part, not only its own


Play: TypeAlias = Callable[[Any, Incident], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class IncidentDefinition:
    """An incident as a method of the pillar that it happens to: its name is the kind."""

    row: IncidentRow
    play: Play  # begins it, and ends it again


def incident(
    weight: float, shortest: timedelta, longest: timedelta | None = None, **flags: bool
) -> Callable[[Callable[[Any, Incident], AsyncIterator[None]]], IncidentDefinition]:
    """Make an incident of a method that begins it, yields while it lasts, and ends it."""

    def define(method: Callable[[Any, Incident], AsyncIterator[None]]) -> IncidentDefinition:
        row = IncidentRow(weight, shortest, longest or shortest, **flags)
        return IncidentDefinition(row, asynccontextmanager(method))

    return define


def draw_incidents(
    settings: SimulationSettings, rows: Mapping[str, IncidentRow], targets: Mapping[str, Sequence[str]]
) -> list[Incident]:
    """Return the whole schedule; the last fault ends before the quiet end of the run begins.

    `targets` names the clusters to which each kind can happen; a kind without any is not drawn.
    """
    random = Random(f"incidents of {settings.seed}")
    count = round(settings.incidents_per_day * settings.faults_end / DAY)
    kinds = [kind for kind in rows if targets[kind]]
    chosen = random.choices(kinds, weights=[rows[kind].weight for kind in kinds], k=count)
    drawn = [_draw(kind, rows[kind], targets[kind], settings, random) for kind in chosen]
    return sorted(drawn, key=lambda incident: incident.at)


def _draw(
    kind: str, row: IncidentRow, clusters: Sequence[str], settings: SimulationSettings, random: Random
) -> Incident:
    target = "" if row.fleet_wide else random.choice(clusters)
    longest = min(row.longest, settings.faults_end / 2)
    lasts = _spread(min(row.shortest, longest), longest, random)
    begins = timedelta(seconds=random.uniform(0, (settings.faults_end - lasts).total_seconds()))
    return Incident(begins, kind, target, lasts, random.random())


def _spread(shortest: timedelta, longest: timedelta, random: Random) -> timedelta:
    """Choose a length so that minutes are as likely as hours and days."""
    low, high = math.log(shortest.total_seconds()), math.log(longest.total_seconds())
    return timedelta(seconds=math.exp(random.uniform(low, high)))
