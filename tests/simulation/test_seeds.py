"""Simulated fleets keep every invariant through weeks of faults; a failing seed is printed with its trace."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from random import Random

import pytest
from tests.simulation.lives import FIXED_LIVES
from tests.simulation.planes import HubPlane, PlaneImages
from tests.simulation.settings import SimulationSettings
from tests.simulation.simulation import simulate

from watchword.api.meta import ObjectKey
from watchword.api.resources import NAMESPACES
from watchword.testing.virtual_time import VirtualClock, run_virtual

SEEDS = int(os.environ.get("WATCHWORD_SIMULATION_SEEDS", "1"))
LIFE = SimulationSettings(clusters=6, days=20, incidents_per_day=3.0)


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_fleet_keeps_its_invariants_under_all_incidents(images: PlaneImages, seed: int) -> None:
    report = simulate(
        SimulationSettings(seed=seed, clusters=LIFE.clusters, days=LIFE.days, incidents_per_day=3.0), images
    )

    assert report.is_clean, str(report)


@pytest.mark.slow
def test_same_seed_gives_the_same_run_in_any_process(images: PlaneImages) -> None:
    here = simulate(SimulationSettings(seed=7, clusters=2, days=12), images).digest

    command = [sys.executable, "-m", "tests.simulation", "--seed=7", "--clusters=2", "--days=12"]
    elsewhere = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert here in elsewhere


async def answered_after(images: PlaneImages, outage: float) -> float:
    loop = asyncio.get_running_loop()
    hub = HubPlane(images, VirtualClock(loop), Random(1))
    asking = asyncio.create_task(hub.administrator().get(NAMESPACES, ObjectKey.cluster("default")))
    await asyncio.sleep(outage)
    await hub.start()
    await asking
    await hub.stop()
    return loop.time()


def test_administrator_waits_as_long_in_every_run(images: PlaneImages) -> None:
    assert len({run_virtual(answered_after(images, outage=1.0)) for _ in range(2)}) == 1


def test_fixed_lives_mix_sizes_and_densities_and_hold_every_seed_that_failed() -> None:
    assert len(FIXED_LIVES) == len({life.seed for life in FIXED_LIVES}) == 208
    assert {life.clusters for life in FIXED_LIVES} >= {1, 2, 3, 5, 8, 20, 50}
    assert {life.incidents_per_day for life in FIXED_LIVES} >= {2.0, 10.0, 20.0}
    assert {life.seed for life in FIXED_LIVES} >= {7101, 91012, 31415933, *range(555001, 555011), 103459982, 463392102}


def test_another_seed_gives_another_run(images: PlaneImages) -> None:
    lives = {simulate(SimulationSettings(seed=seed, clusters=1, days=10), images).digest for seed in (1, 2)}

    assert len(lives) == 2
