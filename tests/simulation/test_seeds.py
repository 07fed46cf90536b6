"""Simulated fleets keep every invariant through weeks of faults; a failing seed is printed with its trace."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from itertools import islice, product
from random import Random

import pytest
from tests.simulation.__main__ import kinds_of
from tests.simulation.access_probes import AccessProber
from tests.simulation.administrator import Administrator
from tests.simulation.catalog import FURTHER, draw_life, make_pillars
from tests.simulation.fleet import SimulatedFleet, make_profiles
from tests.simulation.lives import DRIFT, FIXED_LIVES, HERD_LIVES, PAIRS, PILLAR_LIVES, new_lives
from tests.simulation.planes import HubPlane, PlaneImages
from tests.simulation.settings import DAY, SimulationSettings
from tests.simulation.simulation import simulate
from tests.simulation.violations import Violations

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
    further = tuple(pillar.name for pillar in FURTHER)
    here = simulate(SimulationSettings(seed=7, clusters=2, days=9, pillars=further), images).digest

    arguments = ["--seed=7", "--clusters=2", "--days=9", f"--pillars={','.join(further)}"]
    command = [sys.executable, "-m", "tests.simulation", *arguments]
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
    assert len(FIXED_LIVES) == len({life.seed for life in FIXED_LIVES}) == 200
    assert {life.clusters for life in FIXED_LIVES} >= {1, 2, 3, 5, 8, 20, 50}
    assert {life.incidents_per_day for life in FIXED_LIVES} >= {2.0, 10.0, 20.0}
    assert {life.seed for life in FIXED_LIVES} >= {7101, 91012, 31415933, 103459982, 463392102}


async def pillars_with_a_distrusted_authority(images: PlaneImages) -> set[str]:
    found: set[str] = set()
    for life in PILLAR_LIVES:
        fleet = SimulatedFleet.make(life, images, Random(life.seed))
        violations = Violations(fleet.history)
        pillars = make_pillars(fleet, Administrator(fleet), AccessProber(fleet, violations), violations)
        for incident in draw_life(life, pillars):
            if incident.kind == "authority" and incident.lasts > life.longest_life:
                found |= {name for member in fleet.members.values() for name in member.profile.pillars}
    return found


def test_authority_is_distrusted_in_a_fixed_life_of_each_further_pillar(images: PlaneImages) -> None:
    assert run_virtual(pillars_with_a_distrusted_authority(images)) >= {pillar.name for pillar in FURTHER}


def test_fixed_lives_have_every_pair_of_pillars_with_and_without_drift_and_short_credentials() -> None:
    combined = {(life.pillars, life.drift > 0, life.longest_life < 2 * DAY) for life in PILLAR_LIVES}

    assert combined == {*product(PAIRS, (False, True), (False, True))}


def test_some_cluster_takes_part_in_each_pillar_of_a_life() -> None:
    for life in (*PILLAR_LIVES, *HERD_LIVES, *islice(new_lives(Random(1)), 500)):
        taken = {name for profile in make_profiles(life, Random(0)) for name in profile.pillars}
        assert taken >= {*life.pillars}, life


def test_most_new_lives_have_further_pillars_and_a_part_of_them_drift() -> None:
    lives = list(islice(new_lives(Random(1)), 4000))

    further = [life for life in lives if life.pillars]
    assert len(further) > len(lives) / 2
    assert {name for life in further for name in life.pillars} == {pillar.name for pillar in FURTHER}
    assert {life.drift for life in further} == {0.0, DRIFT}
    assert {life.clusters for life in lives} >= {1, 2, 3, 5, 8, 20}
    assert kinds_of(lives).endswith(f"with drift {sum(life.drift > 0 for life in lives)}")


def explore(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", "--explore", "--within=0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_too_few_new_lives_are_a_failure_and_the_last_line_says_so() -> None:
    done = explore("--lives=1000")

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("0 lives of at least 1000, broken promises with seeds: none; by")


def test_another_seed_gives_another_run(images: PlaneImages) -> None:
    lives = {simulate(SimulationSettings(seed=seed, clusters=1, days=10), images).digest for seed in (1, 2)}

    assert len(lives) == 2
