"""Each kind of incident by itself, and the combinations that broke an invariant before."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.incidents import INCIDENT_WEIGHTS, Incident, IncidentKind, draw_incidents
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate

from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.testing.builders import a_cluster

LIFE = SimulationSettings(seed=1, clusters=2, days=12, quiet=5 * DAY)


def an_incident(
    kind: IncidentKind,
    *,
    target: str = "edge-1",
    at: timedelta = 2 * DAY,
    lasts: timedelta | None = None,
    amount: float = 0.5,
) -> Incident:
    row = INCIDENT_WEIGHTS[kind]
    return Incident(at, kind, "" if row.fleet_wide else target, lasts or min(row.longest, 3 * DAY), amount)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.name.lower()) for kind in IncidentKind])
def test_a_fleet_gets_over_it(images: PlaneImages, kind: IncidentKind) -> None:
    report = simulate(LIFE, images, SimulationScript((an_incident(kind),)))

    assert report.is_clean, str(report)


@pytest.mark.parametrize(
    "incidents",
    [
        pytest.param(
            (
                an_incident(IncidentKind.OBJECT_DELETED, amount=0.5),
                an_incident(IncidentKind.OBJECT_DELETED, amount=0.7),
            ),
            id="a binding that somebody deleted was held by its finalizer for ever",
        ),
        pytest.param(
            (
                an_incident(IncidentKind.PARTITION, at=DAY, lasts=6 * DAY),
                an_incident(IncidentKind.AGENT_CRASH, at=DAY + HOUR, lasts=HOUR),
            ),
            id="an agent that started without a way to the hub never noticed that its certificate expired",
        ),
        pytest.param(
            (an_incident(IncidentKind.DENIAL, at=DAY, lasts=2 * DAY),),
            id="what was asked while denied kept a member from renewing as itself",
        ),
        pytest.param(
            (
                an_incident(IncidentKind.PARTITION, at=DAY, lasts=7 * DAY),
                an_incident(IncidentKind.REMOVAL, at=2 * DAY, lasts=HOUR),
            ),
            id="a cluster that was deleted while its agent was silent stayed for ever",
        ),
        pytest.param(
            (
                an_incident(IncidentKind.PARTITION, target="edge-2", at=DAY, lasts=5 * DAY),
                an_incident(IncidentKind.ADDON_CREDENTIAL_LOST, target="edge-2", at=5 * DAY),
            ),
            id="an add-on's certificate was asked for as a stranger, and waited for a day",
        ),
        pytest.param(
            (
                an_incident(IncidentKind.SKEW, at=DAY / 2, lasts=5 * DAY, amount=0.0),
                an_incident(IncidentKind.DENIAL, at=DAY, lasts=2 * DAY),
            ),
            id="an agent whose clock is ahead asked without pause once it was accepted again",
        ),
    ],
)
def test_incident_that_once_broke_an_invariant_breaks_none(
    images: PlaneImages, incidents: tuple[Incident, ...]
) -> None:
    short_lived = SimulationSettings(
        seed=1, clusters=2, days=14, quiet=5 * DAY, lease=DAY, shortest_life=3 * DAY, longest_life=4 * DAY
    )

    report = simulate(short_lived, images, SimulationScript(incidents))

    assert report.is_clean, str(report)


def test_account_whose_deletion_failed_is_no_violation(images: PlaneImages) -> None:
    outage = an_incident(IncidentKind.API_OUTAGE, lasts=HOUR / 2)
    attempt = an_incident(IncidentKind.ACCOUNT_LOST, at=2 * DAY + HOUR / 60)

    report = simulate(LIFE, images, SimulationScript((outage, attempt)))

    assert report.is_clean, str(report)


def test_cluster_that_is_introduced_anew_between_two_looks_is_no_violation(images: PlaneImages) -> None:
    async def introduce_anew(fleet: SimulatedFleet) -> None:
        key = ObjectKey.cluster("edge-1")
        while fleet.stored.get(MANAGED_CLUSTERS, key) is not None:  # noqa: ASYNC110 - a store rings no bell
            await asyncio.sleep(1)
        lease = int(fleet.settings.lease.total_seconds())
        await fleet.hub.administrator().create(MANAGED_CLUSTERS, a_cluster(key.name, lease_seconds=lease))

    removal = an_incident(IncidentKind.REMOVAL, lasts=HOUR)
    report = simulate(LIFE, images, SimulationScript((removal,), sabotage=(2 * DAY, introduce_anew)))

    assert report.is_clean, str(report)


def test_the_schedule_of_a_seed_ends_before_the_quiet_begins() -> None:
    settings = SimulationSettings(seed=3, clusters=5, days=40, incidents_per_day=10)

    drawn = draw_incidents(settings, ["edge-1", "edge-2"])

    assert len(drawn) == 320
    assert max(incident.at + incident.lasts for incident in drawn) <= settings.faults_end
    assert {incident.kind for incident in drawn} == set(IncidentKind)
