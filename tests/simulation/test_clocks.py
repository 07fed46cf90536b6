"""Clocks of a simulated fleet jump in the middle of a reconcile; the hub has one of its own."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.history import History
from tests.simulation.incidents import Incident
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate

from watchword.testing.virtual_time import run_virtual

LIFE = SimulationSettings(seed=1, clusters=1, days=4, quiet=2 * DAY, background_faults=FaultPlan())


@pytest.mark.parametrize(
    ("kind", "actor"),
    [pytest.param("clock_jump", "edge-1", id="cluster"), pytest.param("hub_clock_jump", "hub-0", id="hub")],
)
def test_clock_jumps_when_a_program_has_just_written(images: PlaneImages, kind: str, actor: str) -> None:
    jump = Incident(DAY, kind, "edge-1" if actor == "edge-1" else "", HOUR, 0.6)
    jumps: list[bool] = []
    skews: list[tuple[timedelta, ...]] = []

    async def look(fleet: SimulatedFleet) -> None:
        entries = list(fleet.history.entries)
        for number, entry in enumerate(entries):
            if entry.what.startswith("the clock of"):
                jumps.append(any(each.at == entry.at and each.actor == actor for each in entries[number - 3 : number]))
        skews.append(tuple(clock.skew for clock in fleet.clocks))

    report = simulate(LIFE, images, SimulationScript((jump,), sabotage=(DAY + HOUR / 2, look)))

    assert report.is_clean, str(report)
    assert jumps == [True]
    assert skews == [(timedelta(0), *((HOUR, timedelta(0)) if actor == "hub-0" else (timedelta(0), HOUR)))]


def test_suspended_machines_have_wall_clocks_that_move_on_and_timers_that_do_not(images: PlaneImages) -> None:
    ahead: list[float] = []

    async def look(fleet: SimulatedFleet) -> None:
        now = asyncio.get_running_loop().time()
        ahead.extend((clock.now() - clock.epoch).total_seconds() - now for clock in fleet.clocks)

    suspension = Incident(DAY, "suspend", "", 6 * HOUR, 0.5)
    report = simulate(LIFE, images, SimulationScript((suspension,), sabotage=(DAY + HOUR, look)))

    assert report.is_clean, str(report)
    assert ahead == pytest.approx([6 * 3600.0] * 3)


async def order_of_events() -> list[str]:
    history, order = History(asyncio.get_running_loop().time), list[str]()

    async def write() -> None:
        await history.tell("edge-2", "POST /a")
        await history.tell("edge-1", "POST /a")
        order.append("response")

    expected = history.expect(["edge-1"])
    writing = asyncio.create_task(write())
    await expected
    order.append("incident")
    await writing
    return order


def test_response_to_an_expected_write_comes_after_what_waited_for_the_write() -> None:
    assert run_virtual(order_of_events()) == ["incident", "response"]
