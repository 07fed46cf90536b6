"""A process that is killed after any single write of a cluster's first days leaves nothing half done or done twice."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import count

import pytest
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate

STEP = 1 if os.environ.get("WATCHWORD_SIMULATION_SEEDS") else 5
SHORT = SimulationSettings(
    seed=1,  # one hub; edge-1 has an add-on with a token and a work
    clusters=1,
    days=4,
    quiet=2 * DAY,
    background_faults=FaultPlan(),
    shortest_life=timedelta(days=1, hours=12),  # so that renewals are among the writes
    longest_life=timedelta(days=1, hours=12),
)


@pytest.mark.timeout(900)  # of wall time: a life takes up to a minute of CPU, and the cores may be busy
@pytest.mark.slow
@pytest.mark.parametrize(("victim", "fewest"), [("hub-0", 20), ("edge-1", 25)])
def test_a_kill_after_any_write_leaves_no_trace(images: PlaneImages, victim: str, fewest: int) -> None:
    for writes in count(1, STEP):
        report = simulate(SHORT, images, SimulationScript(crash=(victim, writes)))
        if report.starts[victim] == 1:
            break  # it never wrote that often

        assert report.is_clean, f"killed after write {writes} of {victim}: {report}"
    assert writes > fewest
