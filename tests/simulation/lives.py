"""Which lives are simulated: fixed ones that gate a change, and new ones that search for more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from random import Random

from msgspec.structs import replace
from tests.simulation.catalog import FURTHER
from tests.simulation.fleet import fewest_clusters
from tests.simulation.settings import DAY, SimulationSettings

SPARSE, DENSE = 2.0, 20.0  # incidents a day
DRIFT = 0.001  # seconds for each pass of the loop, in every other life
LARGEST_SEED = 10**9
FURTHER_PILLARS_IN = 0.75  # of new lives: registration, add-ons and works alone are searched for longer already

DENSE_SEEDS = (7101, 91012, 31415933, *range(555001, 555004))
"""Of small fleets under dense faults."""

FOUND_LIVES = (
    SimulationSettings(seed=103459982, clusters=1, days=20, incidents_per_day=DENSE / 4),
    SimulationSettings(seed=463392102, clusters=2, days=12, incidents_per_day=DENSE / 4, pillars=("grpc", "ocm")),
    SimulationSettings(
        seed=459391665, clusters=1, days=12, incidents_per_day=DENSE / 4, drift=DRIFT, pillars=("grpc", "ocm")
    ),
    SimulationSettings(
        seed=511326780, clusters=2, days=12, incidents_per_day=DENSE / 4, pillars=("aws-irsa", "operator")
    ),
    SimulationSettings(seed=719290927, clusters=3, days=20, incidents_per_day=DENSE / 4),
    SimulationSettings(seed=869244890, clusters=1, days=20, incidents_per_day=DENSE / 2),
    SimulationSettings(seed=370702727, clusters=3, days=20, incidents_per_day=DENSE / 4, drift=DRIFT),
    SimulationSettings(seed=788371727, clusters=1, days=20, incidents_per_day=DENSE / 4, drift=DRIFT),
    SimulationSettings(
        seed=882453161,
        clusters=1,
        days=12,
        shortest_life=1.5 * DAY,
        longest_life=1.9 * DAY,
        incidents_per_day=DENSE / 4,
        pillars=("grpc", "ocm"),
    ),
    SimulationSettings(
        seed=747909224,
        clusters=1,
        days=12,
        shortest_life=1.5 * DAY,
        longest_life=1.9 * DAY,
        incidents_per_day=DENSE / 4,
        drift=DRIFT,
        pillars=("operator", "grpc"),
    ),
)
"""Small lives that broke a promise with the incidents of their time; another kind changes what a seed draws."""

SMALL_FLEETS = (
    *((clusters, SPARSE) for clusters in (1, 2, 3, 5)),
    *((clusters, DENSE / 4) for clusters in (1, 2, 3)),
)
"""Clusters and incidents a day of lives that take a second or two of CPU: many seeds for little time."""

PAIRS = tuple((one.name, other.name) for one, other in zip(FURTHER, (*FURTHER[1:], FURTHER[0]), strict=True))
"""What most lives have besides registration, add-ons and works: two of the others, which share incidents."""

SMALL_LIVES = tuple(
    SimulationSettings(seed=seed, clusters=clusters, days=20, incidents_per_day=incidents, drift=DRIFT * (seed % 2))
    for seed, (clusters, incidents) in zip(range(101, 200), cycle(SMALL_FLEETS), strict=False)
)


def _with_pillars(number: int) -> SimulationSettings:
    """Return every pair of further pillars with one cluster and two, with and without drift, as the numbers go up."""
    pillars, is_small = PAIRS[number % len(PAIRS)], number // len(PAIRS) % 2 == 0
    life = SimulationSettings(
        seed=201 + number,
        clusters=max(1 if is_small else 2, fewest_clusters(pillars)),
        days=12,
        incidents_per_day=DENSE / 4,
        drift=DRIFT * (number // len(PAIRS) // 2 % 2),
        pillars=pillars,
    )
    return replace(life, shortest_life=1.5 * DAY, longest_life=1.9 * DAY) if is_small else life


PILLAR_LIVES = tuple(map(_with_pillars, range(70)))
"""Short lives with many incidents, each with two further pillars.

In every other six a credential lives for less than the longest incident, two days: an authority ends up distrusted.
"""

HERD_LIVES = tuple(
    SimulationSettings(seed=seed, clusters=8, days=12, incidents_per_day=DENSE / 4, pillars=pillars)
    for seed, pillars in ((601, ("grpc", "ocm")), (602, ("aws-irsa", "operator")))
)
"""So many clusters that they could ask a hub that was away at once, with each driver."""

COVERING_LIFE = SimulationSettings(
    seed=324, clusters=2, days=12, incidents_per_day=DENSE / 4, pillars=("accounts", "operator")
)
"""What no other life reaches: memory refused with accounts, and a credential lost with an operator."""

FIXED_LIVES = (
    SimulationSettings(seed=31, clusters=50, days=12, incidents_per_day=DENSE),
    *(SimulationSettings(seed=seed, clusters=8, days=60, incidents_per_day=DENSE / 4) for seed in range(21, 23)),
    *(SimulationSettings(seed=seed, clusters=3, days=15, incidents_per_day=DENSE) for seed in DENSE_SEEDS),
    *(SimulationSettings(seed=seed, clusters=20, days=30, incidents_per_day=SPARSE) for seed in range(1, 4)),
    *(SimulationSettings(seed=seed, clusters=1, days=20, incidents_per_day=DENSE / 2) for seed in range(11, 17)),
    *FOUND_LIVES,
    *HERD_LIVES,
    *PILLAR_LIVES,
    *SMALL_LIVES,
    COVERING_LIFE,
)
"""The lives of CI: small and large fleets, sparse and dense faults; clusters with each driver of add-ons in most.

The longest come first, so that no core waits for one of them in the end.
"""


def new_lives(random: Random) -> Iterator[SimulationSettings]:
    """Return an endless series of new lives, of the same kinds as the fixed ones except the largest."""
    choices = (*PAIRS, tuple(pillar.name for pillar in FURTHER))
    plain = [life for life in FIXED_LIVES[1:] if not life.pillars]
    while True:
        further = random.random() < FURTHER_PILLARS_IN
        kinds, pillars = ((*HERD_LIVES, *PILLAR_LIVES), random.choice(choices)) if further else (plain, ())
        kind, seed, drift = random.choice(kinds), random.randrange(LARGEST_SEED), random.choice((0.0, DRIFT))
        clusters = max(kind.clusters, fewest_clusters(pillars))
        yield replace(kind, clusters=clusters, seed=seed, drift=drift, pillars=pillars)
