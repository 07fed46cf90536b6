"""A simulated hub that is restored from a backup keeps what was denied and revoked since."""

from __future__ import annotations

import pytest
from tests.helpers.fault_injection import FaultPlan
from tests.simulation import planes
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.incidents import Incident
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.simulation import SimulationReport, SimulationScript, simulate

from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS

LIFE = SimulationSettings(seed=1, clusters=1, days=4, quiet=2 * DAY, background_faults=FaultPlan())
DENIAL = Incident(DAY + HOUR, "denial", "edge-1", 12 * HOUR, 0.5)
REVOCATION = Incident(DAY + HOUR, "account_lost", "edge-1", 2 * HOUR, 0.5)
BACKUP = Incident(DAY, "backup_restored", "", 2 * HOUR, 0.5)


def live(images: PlaneImages, incident: Incident) -> tuple[SimulationReport, list[bool]]:
    accepted: list[bool] = []

    async def look(fleet: SimulatedFleet) -> None:
        cluster = fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster("edge-1")) or {}
        accepted.append(cluster["spec"]["hubAcceptsClient"])

    return simulate(LIFE, images, SimulationScript((BACKUP, incident), sabotage=(DAY + 4 * HOUR, look))), accepted


def restore_everything(*_: object) -> list[object]:
    return []


def test_cluster_that_was_denied_since_the_backup_stays_denied(images: PlaneImages) -> None:
    report, accepted = live(images, DENIAL)

    assert report.is_clean, str(report)
    assert accepted == [False]


def test_token_that_was_revoked_since_the_backup_stays_refused(images: PlaneImages) -> None:
    report, _ = live(images, REVOCATION)

    assert report.is_clean, str(report)


@pytest.mark.parametrize(
    ("incident", "noticed"),
    [
        pytest.param(DENIAL, "denied", id="denial"),
        pytest.param(REVOCATION, "which had its ServiceAccount deleted, was answered", id="revocation"),
    ],
)
def test_restore_that_undoes_a_denial_or_a_revocation_is_noticed(
    images: PlaneImages, monkeypatch: pytest.MonkeyPatch, incident: Incident, noticed: str
) -> None:
    monkeypatch.setattr(planes, "decide_corrections", restore_everything)

    report, _ = live(images, incident)

    assert any(noticed in violation.what for violation in report.violations), str(report)
