"""The table of incidents and pillars counts what came to be, and a cell that is empty fails."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace
from tests.simulation.__main__ import print_coverage
from tests.simulation.catalog import cells
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.incidents import Incident
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR
from tests.simulation.simulation import SimulationScript, simulate
from tests.simulation.test_invariants import LIFE

SHORT = replace(LIFE, days=3)


def test_table_without_empty_cells_passes(capsys: pytest.CaptureFixture[str]) -> None:
    reached = Counter(cells())

    assert print_coverage(reached)
    assert f"{len(reached)} of {len(reached)} reached" in capsys.readouterr().out


def test_empty_cell_fails_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    reached = Counter(cells())
    del reached["denial", "registration"]
    reached["addon_removed", "works"] = 5  # no cell: it reaches none of them

    assert not print_coverage(reached)
    shown = capsys.readouterr().out
    assert f"{len(reached) - 1} of {len(reached)} reached" in shown
    assert "not reached: denial and registration\n" in shown


@pytest.mark.parametrize(
    ("outage", "counted"),
    [pytest.param((), 1, id="done"), pytest.param(("api_outage",), 0, id="refused by a hub that is down")],
)
def test_incident_is_counted_once_its_deed_is_done(images: PlaneImages, outage: tuple[str, ...], counted: int) -> None:
    faults = [Incident(DAY - HOUR, kind, "", 2 * HOUR, 0.5) for kind in outage]
    lost = Incident(DAY - HOUR / 2, "account_lost", "edge-1", HOUR / 4, 0.5)

    reached = simulate(SHORT, images, SimulationScript((*faults, lost))).reached

    assert reached.get(("account_lost", "addons"), 0) == counted


def test_denial_of_a_cluster_that_is_denied_already_is_not_counted(images: PlaneImages) -> None:
    denials = tuple(Incident(DAY - hours * HOUR, "denial", "edge-1", 4 * HOUR, 0.5) for hours in (9, 8))

    reached = simulate(SHORT, images, SimulationScript(denials)).reached
    assert {("denial", name): 1 for name in ("registration", "addons", "works")} == reached


def test_only_clusters_with_certificates_are_reached_as_those_of_open_cluster_management(images: PlaneImages) -> None:
    pillars: dict[str, tuple[str, ...]] = {}

    async def look(fleet: SimulatedFleet) -> None:
        pillars.update({member.profile.driver: member.profile.pillars for member in fleet.members.values()})

    jump = Incident(DAY / 2, "clock_jump", "edge-1", HOUR, 0.5)
    life = replace(SHORT, pillars=("grpc", "ocm"))
    report = simulate(life, images, SimulationScript((jump,), sabotage=(DAY / 2, look)))

    assert "ocm" in pillars["csr"]
    assert "ocm" not in pillars["grpc"]
    assert report.reached["clock_jump", "grpc"] == 1
    assert ("clock_jump", "ocm") not in report.reached
