"""Whatever grows while a fleet is left in peace is noticed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest
from tests.helpers.fault_injection import FaultPlan
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, HOUR, SimulationSettings
from tests.simulation.simulation import SimulationScript, simulate

from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.apiserver.controllers import certificate_requests

LIFE = SimulationSettings(
    seed=1,
    clusters=2,
    days=4,
    quiet=2 * DAY,
    background_faults=FaultPlan(),
    shortest_life=12 * HOUR,
    longest_life=12 * HOUR,
)
LAST_DAY = 3 * DAY + 6 * HOUR


def found_in(images: PlaneImages, deed: Callable[[SimulatedFleet], Awaitable[None]]) -> list[str]:
    report = simulate(LIFE, images, SimulationScript(sabotage=(LAST_DAY, deed)))
    return [violation.what for violation in report.violations]


async def do_nothing(_: SimulatedFleet) -> None:
    pass


def test_nothing_grows_in_a_life_without_faults(images: PlaneImages) -> None:
    assert found_in(images, do_nothing) == []


def test_requests_that_are_kept_for_ever_are_noticed(images: PlaneImages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_requests, "decide_removal_time", lambda _: None)

    found = found_in(images, do_nothing)

    assert any(what.startswith("the hub has ") and "certificatesigningrequests" in what for what in found), found


def test_process_and_plane_that_hold_more_and_more_are_noticed(images: PlaneImages) -> None:
    waiting: list[asyncio.Task[bool]] = []

    async def leak(fleet: SimulatedFleet) -> None:
        loop, member = asyncio.get_running_loop(), fleet.members["edge-1"]
        waiting.extend(loop.create_task(asyncio.Event().wait()) for _ in range(8))
        for _ in range(8):
            loop.call_later(DAY.total_seconds(), int)
            member.to_hub.streams[asyncio.timeout(None)] = None
        await member.client().create(CONFIG_MAPS, CONFIG_MAPS.manifest(ObjectKey("default", "left")))

    found = found_in(images, leak)

    noticed = " ".join(found)
    assert "edge-1 has 1 more configmaps after a quiet day, of 2" in noticed
    for what in ("tasks", "timers", "streams"):
        assert re.search(rf"the programs have \d+ more {what} after a quiet day", noticed), noticed
