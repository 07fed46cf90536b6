"""An administrator acts exactly while a cluster joins or renews."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.history import HistoryEntry
from tests.simulation.incidents import Incident
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate
from tests.simulation.worst_moment import DEEDS, PASSES

from watchword.admin.revoke import kinds

CASES = list(product(("join", "renewal"), DEEDS))
DAYS = len(CASES) + 3
REQUESTED = re.compile(r"^POST .*(/certificatesigningrequests|/token|agent/secrets) 201$")
ANSWERED = {
    "csr": re.compile(r"/approval 20|hub-kubeconfig-secret 20"),
    "aws-irsa": re.compile(r"/secrets/"),
    "grpc": re.compile(r"hub-kubeconfig-secret 20"),  # its request is answered once the hub has decided
}


def written_before_the_deed(case: int, written: list[HistoryEntry]) -> list[str]:
    """Return what was written after the last request that came before the administrator acted."""
    _, deed = CASES[case]
    since = [entry for entry in written if entry.at >= (1 + case) * DAY.total_seconds()]
    acts = next(n for n, entry in enumerate(since) if f"{deed} while a request is in flight" in entry.what)
    asked = max(n for n in range(acts) if since[n].actor == "edge-1" and REQUESTED.search(since[n].what))
    return [entry.what for entry in since[asked + 1 : acts]]


@pytest.mark.parametrize(
    "driver", ["csr", *(pytest.param(name, marks=pytest.mark.slow) for name in ("aws-irsa", "grpc"))]
)
def test_administrator_acts_between_a_request_and_its_result(images: PlaneImages, driver: str) -> None:
    pillars = () if driver == "csr" else (driver,)
    life = SimulationSettings(1, clusters=1, days=DAYS, quiet=2 * DAY, background_faults=FaultPlan(), pillars=pillars)
    amounts = [(case + 0.5 / len(PASSES)) / len(CASES) for case in range(len(CASES))]
    incidents = [Incident((1 + n) * DAY, "worst_moment", "edge-1", 6 * HOUR, each) for n, each in enumerate(amounts)]
    written: list[HistoryEntry] = []

    async def remember(fleet: SimulatedFleet) -> None:
        written.extend(fleet.history.entries)

    report = simulate(life, images, SimulationScript(tuple(incidents), sabotage=((DAYS - 1) * DAY, remember)))

    assert report.is_clean, str(report)
    for case in range(len(CASES)):
        between = written_before_the_deed(case, written)
        assert not any(map(ANSWERED[driver].search, between)), (CASES[case], between)


def test_token_that_works_after_its_revocation_is_noticed(images: PlaneImages, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_none(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(kinds, "_find_accounts", find_none)
    life = SimulationSettings(1, clusters=1, days=3, quiet=2 * DAY, background_faults=FaultPlan())
    revoked = Incident(DAY, "worst_moment", "edge-1", HOUR, (CASES.index(("renewal", "revoke")) + 0.1) / len(CASES))

    report = simulate(life, images, SimulationScript((revoked,)))

    assert any("the token of edge-1, which was revoked, was" in one.what for one in report.violations), str(report)
