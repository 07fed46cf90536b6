"""A failure is told by the fewest incidents that cause it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.administrator import Administrator
from tests.simulation.history import History
from tests.simulation.incidents import Incident
from tests.simulation.lives import FIXED_LIVES
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.shrinking import (
    CALM,
    Shrinker,
    applicable_incidents,
    as_test,
    large_omissions,
    minimize,
    simpler_settings,
    without_numbers,
)
from tests.simulation.simulation import SimulationReport, SimulationScript, simulate
from tests.simulation.violations import Violation


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(set[int](), id="nothing: the life breaks without any"),
        pytest.param({7}, id="one"),
        pytest.param({3, 41}, id="two far apart"),
        pytest.param({10, 11, 12}, id="three in a row"),
        pytest.param(set(range(44)), id="all of them"),
    ],
)
def test_what_is_left_is_the_cause_and_nothing_else(cause: set[int]) -> None:
    attempts: list[int] = []

    def still(some: Sequence[int]) -> bool:
        attempts.append(len(some))
        return cause <= set(some)

    assert minimize(range(44), still) == sorted(cause)
    assert len(attempts) < 400


def test_a_smaller_fleet_has_no_more_clusters_than_the_finding_names() -> None:
    report = a_broken_life("the add-on credential of edge-3 expired")

    fewer, calm = simpler_settings(report)

    assert (fewer.clusters, calm.clusters) == (3, 3)
    assert [one.target for one in applicable_incidents(report.incidents, fewer)] == ["", "edge-3"]


def test_most_of_what_has_no_part_in_a_failure_is_left_out_at_once() -> None:
    report = a_broken_life("the add-on credential of edge-3 expired")
    later = Incident(5 * DAY, "denial", "edge-3", HOUR, 0.5)
    incidents = [*report.incidents, later]

    left_out = [[one for one in incidents if omitted(one)] for omitted in large_omissions(report)]

    assert left_out[0] == [later], "what begins after the violation"
    assert [one.target for one in left_out[1]] == ["edge-4"], "what concerns other clusters"
    assert len(left_out) == 3


def test_printed_test_has_every_setting_that_a_life_may_have() -> None:
    settings = replace(
        FIXED_LIVES[-1], shortest_life=DAY, longest_life=2 * DAY, pillars=("grpc",), background_faults=CALM
    )
    report = SimulationReport(settings, "digest", 90, ())

    lines = as_test(report).splitlines()

    printed = eval(lines[1].partition(" = ")[2], {**globals(), "FaultPlan": FaultPlan})
    assert replace(printed, incidents_per_day=settings.incidents_per_day) == settings


def test_same_invariant_is_recognised_whatever_its_numbers() -> None:
    assert (
        without_numbers("edge-1: expired at 10:31")
        == without_numbers("edge-12: expired at 9:07")
        != without_numbers("edge-1: has expired")
    )


def test_failure_report_names_the_invariant_the_violation_and_the_trace() -> None:
    told = str(a_broken_life("edge-3: it has 1 Secrets instead of 2"))

    assert "seed 5: 30 days, 20 clusters, 90 events, 1 broken promises:\n  edge-3: it has 1 Secrets" in told
    assert "day   2  0:00:00  partition: edge-3, for 1:00:00" in told
    assert told.endswith("what led to the first:\n  the trace")


def test_trace_contains_entries_of_its_names_and_collapses_repetitions() -> None:
    seconds = iter(range(0, 600, 60))
    history = History(lambda: float(next(seconds)))
    for number in (1, 1, 11):
        history.wrote(f"edge-{number}", "POST", "/apis/certificates", 201)
    history.wrote("edge-1", "PATCH", "/leases/managed-cluster-lease", 200)
    history.note("fault", "no hub controller runs: everybody, for 1:00:00 begins")

    first, second = history.trace("edge-1")

    assert first == "day   0  0:01:00  edge-1         POST   /apis/certificates 201  (2 times)"
    assert second.endswith("everybody, for 1:00:00 begins")


def test_life_that_ends_with_an_exception_shrinks_to_the_incident_that_raises_it(
    images: PlaneImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def accept(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(Administrator, "accept", accept)
    life = SimulationSettings(seed=1, clusters=2, days=3, quiet=2 * DAY)
    incidents = [Incident(DAY / 2, kind, "edge-1", HOUR, 0.5) for kind in ("partition", "denial", "rotation")]

    report = simulate(life, images, SimulationScript(tuple(incidents)))
    smallest = Shrinker(images, float("inf")).shrink(report)

    assert "ValueError('a bug')" in report.violations[0].what
    assert "raise ValueError" in "\n".join(report.violations[0].trace)
    assert report.incidents == tuple(incidents)
    assert [incident.kind for incident in smallest.incidents] == ["denial"]


def a_broken_life(what: str) -> SimulationReport:
    incidents = tuple(Incident(2 * DAY, "partition", target, HOUR, 0.5) for target in ("", "edge-3", "edge-4"))
    violation = Violation(timedelta(days=4).total_seconds(), what, ("the trace",))
    return SimulationReport(SimulationSettings(seed=5), "digest", 90, (violation,), incidents=incidents)
