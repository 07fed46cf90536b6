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
SETTINGS = ("quiet", "shortest_life", "longest_life", "drift", "pillars")
"""Which a test names where they are not the usual ones."""


@dataclass
class Shrinker:
    """Lives a broken life again and again, each time with less in it, until nothing more can be left out."""

    images: PlaneImages
    seconds: float  # of CPU: no new attempt after so many
    enough: int = 0  # incidents: no new attempt once no more are left
    now: Callable[[], float] = time.process_time
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.now()

    def shrink(self, report: SimulationReport) -> SimulationReport:
        """Return the smallest life found that breaks the first promise that this one broke."""
        sought, best = first_violation_pattern(report), report

        def breaks(settings: SimulationSettings, incidents: Sequence[Incident]) -> bool:
            nonlocal best
            if self._is_time_up() or len(best.incidents) <= self.enough:
                return False
            script = SimulationScript(tuple(incidents), is_sought=lambda what: without_numbers(what) == sought)
            attempt = simulate(settings, self.images, script)
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
    """Return a part of the items for which it still holds, and of which none can be left out.

    Halves are left out first, then smaller and smaller parts; what can be left out is not tried again.
    """
    kept, size = list(items), max(1, len(items) // 2)
    while True:
        start, before = 0, len(kept)
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            if still(rest):
                kept = rest
            else:
                start += size
        if size == 1 and len(kept) == before:
            return kept
        size = max(1, size // 2)


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


def as_test(report: SimulationReport) -> str:
    """Return a life as a regression test."""
    settings = report.settings
    given = [f"seed={settings.seed}, clusters={settings.clusters}, days={settings.days}"]
    values = ((name, getattr(settings, name)) for name in SETTINGS)
    given += [f"{name}={value!r}" for name, value in values if value != getattr(SimulationSettings(), name)]
    given += ["background_faults=FaultPlan()"] if settings.background_faults == CALM else []
    incidents = [
        f"            Incident({one.at!r}, {one.kind!r}, {one.target!r}, {one.lasts!r}, {one.amount}),"
        for one in report.incidents
    ]
    lines = [
        "def test_life_that_once_broke_a_promise_breaks_none(images: PlaneImages) -> None:",
        f"    life = SimulationSettings({', '.join(given)})",
        "    script = SimulationScript(",
        "        (",
        *incidents,
        "        )",
        "    )",
        "",
        "    report = simulate(life, images, script)",
        "",
        "    assert report.is_clean, str(report)",
    ]
    return "\n".join(lines).replace("datetime.timedelta", "timedelta")
