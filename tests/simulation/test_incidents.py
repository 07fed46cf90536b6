"""Each kind of incident by itself, and the combinations that broke an invariant before."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace
from tests.simulation import catalog
from tests.simulation.administrator import quietly
from tests.simulation.catalog import INCIDENTS, PILLARS
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.hostile import accounts_client
from tests.simulation.incidents import Incident, draw_incidents
from tests.simulation.planes import HubPlane, PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate

from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS, MANAGED_SERVICE_ACCOUNTS, NAMESPACES
from watchword.apiserver.store.model import Record, StorageFull, StoreChange
from watchword.kube.errors import ServerError
from watchword.testing.builders import a_cluster, a_namespace
from watchword.testing.virtual_time import VirtualClock, run_virtual

FURTHER = {pillar.name for pillar in catalog.FURTHER}
LIFE = SimulationSettings(seed=1, clusters=2, days=9, quiet=4 * DAY)


def an_incident(
    kind: str,
    *,
    target: str = "edge-1",
    at: timedelta = 2 * DAY,
    lasts: timedelta | None = None,
    amount: float = 0.5,
) -> Incident:
    row = INCIDENTS[kind]
    return Incident(at, kind, "" if row.fleet_wide else target, lasts or min(row.longest, 3 * DAY), amount)


@pytest.mark.timeout(900)  # of wall time: a life takes up to a minute of CPU, and the cores may be busy
@pytest.mark.slow  # together: `make simulate-ci` has each of them with every pillar that it reaches
@pytest.mark.parametrize(
    ("kind", "pillar"), [pytest.param(kind, pillar.name, id=kind) for pillar in PILLARS for kind in pillar.incidents()]
)
def test_a_fleet_gets_over_it(images: PlaneImages, kind: str, pillar: str) -> None:
    life = replace(LIFE, clusters=1, pillars=(pillar,)) if pillar in FURTHER else LIFE

    report = simulate(life, images, SimulationScript((an_incident(kind),)))

    assert report.is_clean, str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    "incidents",
    [
        pytest.param(
            (
                an_incident("object_deleted", amount=0.5),
                an_incident("object_deleted", amount=0.7),
            ),
            id="a deleted binding was held by its finalizer for ever",
        ),
        pytest.param(
            (
                an_incident("partition", at=DAY, lasts=6 * DAY),
                an_incident("agent_crash", at=DAY + HOUR, lasts=HOUR),
            ),
            id="an agent that started without a way to the hub never noticed that its certificate expired",
        ),
        pytest.param(
            (an_incident("denial", at=DAY, lasts=2 * DAY),),
            id="what was asked while denied kept a member from renewing as itself",
        ),
        pytest.param(
            (
                an_incident("partition", at=DAY, lasts=7 * DAY),
                an_incident("removal", at=2 * DAY, lasts=HOUR),
            ),
            id="a cluster that was deleted while its agent was silent stayed for ever",
        ),
        pytest.param(
            (
                an_incident("partition", target="edge-2", at=DAY, lasts=5 * DAY),
                an_incident("addon_credential_lost", target="edge-2", at=5 * DAY),
            ),
            id="an add-on's certificate was asked for as a stranger, and waited for a day",
        ),
        pytest.param(
            (
                an_incident("skew", at=DAY / 2, lasts=5 * DAY, amount=0.0),
                an_incident("denial", at=DAY, lasts=2 * DAY),
            ),
            id="an agent whose clock is ahead asked without pause once it was accepted again",
        ),
        pytest.param(
            (
                an_incident("hub_outage", at=DAY, lasts=7 * HOUR),
                an_incident("worst_moment", at=DAY + HOUR / 4, lasts=HOUR / 5, amount=0.39),
                an_incident("backup_restored", at=DAY + HOUR / 2, lasts=12 * HOUR),
            ),
            id="a backup held a cluster in deletion, which the administrator did not create again",
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
    outage = an_incident("api_outage", lasts=HOUR / 2)
    attempt = an_incident("account_lost", at=2 * DAY + HOUR / 60)

    report = simulate(LIFE, images, SimulationScript((outage, attempt)))

    assert report.is_clean, str(report)


def test_cluster_that_is_introduced_anew_between_two_looks_is_no_violation(images: PlaneImages) -> None:
    async def introduce_anew(fleet: SimulatedFleet) -> None:
        key = ObjectKey.cluster("edge-1")
        while fleet.stored.get(MANAGED_CLUSTERS, key) is not None:  # noqa: ASYNC110 - a store rings no bell
            await asyncio.sleep(1)
        lease = int(fleet.settings.lease.total_seconds())
        await fleet.hub.administrator().create(MANAGED_CLUSTERS, a_cluster(key.name, lease_seconds=lease))

    removal = an_incident("removal", lasts=HOUR)
    report = simulate(LIFE, images, SimulationScript((removal,), sabotage=(2 * DAY, introduce_anew)))

    assert report.is_clean, str(report)


def test_the_schedule_of_a_seed_ends_before_the_quiet_begins() -> None:
    settings = SimulationSettings(seed=3, clusters=5, days=48, incidents_per_day=20)

    drawn = draw_incidents(settings, INCIDENTS, dict.fromkeys(INCIDENTS, ("edge-1", "edge-2")))

    assert len(drawn) == 800
    assert max(incident.at + incident.lasts for incident in drawn) <= settings.faults_end
    assert {incident.kind for incident in drawn} == set(INCIDENTS)


def test_agent_for_accounts_reaches_a_hub_that_moved_only_once_its_kubeconfig_is_renewed(images: PlaneImages) -> None:
    reached: list[bool] = []

    async def move(fleet: SimulatedFleet) -> None:
        fleet.hub.moves += 1
        for hours in (0, 12):
            await asyncio.sleep(hours * 3600)
            client = accounts_client(fleet.members["edge-1"])
            reached.append(await quietly(client.list(MANAGED_SERVICE_ACCOUNTS, namespace="edge-1")))

    simulate(replace(LIFE, clusters=1, pillars=("accounts",)), images, SimulationScript(sabotage=(DAY, move)))

    assert reached == [False, True]


async def refused_write(images: PlaneImages, *, by_the_store: bool) -> ServerError:
    hub = HubPlane(images, VirtualClock(asyncio.get_running_loop()), Random(1))
    await hub.start()
    hub.refused_writes = int(not by_the_store)

    async def write(change: StoreChange) -> Record:
        raise StorageFull(f"no space left on device for {change.path}")

    if by_the_store:
        hub.store.write = write  # type: ignore[method-assign]
    with pytest.raises(ServerError) as refusal:
        await hub.administrator().create(NAMESPACES, a_namespace("x"))
    await hub.stop()
    return refusal.value


def test_full_disk_is_answered_as_the_product_answers(images: PlaneImages) -> None:
    ours, stub = (run_virtual(refused_write(images, by_the_store=real)) for real in (True, False))

    assert (stub.code, stub.reason) == (ours.code, ours.reason) == (507, "InsufficientStorage")
