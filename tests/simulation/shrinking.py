"""Finds the fewest incidents that still break the same promise, so that a failure can be read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.incidents import Incident
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import SimulationSettings
from tests.simulation.simulation import SimulationReport, SimulationScript, simulate

T = TypeVar("T")

CLUSTER = re.compile(r"edge-(\d+)")
CALM = FaultPlan()


@dataclass
class Shrinker:
    """Lives a broken life again and again, each time with less in it, until nothing more can be left out."""

    images: PlaneImages
    seconds: float  # no new attempt after so many
    now: Callable[[], float] = time.monotonic
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.now()

    def shrink(self, report: SimulationReport) -> SimulationReport:
        """Return the smallest life found that breaks the first promise that this one broke."""
        sought, best = first_violation_pattern(report), report

        def breaks(settings: SimulationSettings, incidents: Sequence[Incident]) -> bool:
            nonlocal best
            if self._is_time_up():
                return False
            attempt = simulate(settings, self.images, SimulationScript(tuple(incidents)))
            broken = sought in (without_numbers(violation.what) for violation in attempt.violations)
            best = attempt if broken else best
            return broken

        settings = report.settings
        for smaller in simpler_settings(report):
            if breaks(smaller, applicable_incidents(report.incidents, smaller)):
                settings = smaller
        incidents = applicable_incidents(report.incidents, settings)
        for fewer in large_omissions(best):
            remaining = [one for one in incidents if not fewer(one)]
            if len(remaining) < len(incidents) and breaks(settings, remaining):
                incidents = remaining
        minimize(incidents, lambda some: breaks(settings, some))
        return best

    def _is_time_up(self) -> bool:
        return self.now() - self._started > self.seconds


def large_omissions(report: SimulationReport) -> Iterator[Callable[[Incident], bool]]:
    """Return what to leave out at once, before incidents are left out one by one: most of hundreds have no part in it.

    First what began after the violation, then what concerns other clusters, then one kind after the other.
    """
    violation = report.violations[0]
    named = {f"edge-{number}" for number in CLUSTER.findall(violation.what)}
    yield lambda one: one.at.total_seconds() > violation.at
    if named:
        yield lambda one: bool(one.target) and one.target not in named
    for kind in dict.fromkeys(one.kind for one in report.incidents):
        yield lambda one, kind=kind: one.kind == kind  # type: ignore[misc]  # bound now, for the loop goes on


def minimize(items: Sequence[T], still: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of the items for which it still holds, and of which none can be left out: delta debugging."""
    kept, parts = list(items), 2
    while kept:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if still(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept


def simpler_settings(report: SimulationReport) -> list[SimulationSettings]:
    """Return what to try first: no more clusters than the violation names, and then no background_faults either."""
    named = [int(number) for number in CLUSTER.findall(report.violations[0].what)]
    few = replace(report.settings, clusters=max(named, default=report.settings.clusters))
    return [few, replace(few, background_faults=CALM)]


def applicable_incidents(incidents: Sequence[Incident], settings: SimulationSettings) -> list[Incident]:
    """Return the incidents that happen to clusters which are there."""
    return [one for one in incidents if not one.target or _number(one.target) <= settings.clusters]


def first_violation_pattern(report: SimulationReport) -> str:
    """Return what the first violation of a life says, without its numbers."""
    return without_numbers(report.violations[0].what)


def without_numbers(what: str) -> str:
    """Return a sentence without its numbers, which are others in every life."""
    return re.sub(r"\d+", "#", what)


def _number(cluster: str) -> int:
    found = CLUSTER.fullmatch(cluster)
    return int(found.group(1)) if found else 0
