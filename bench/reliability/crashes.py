"""Kill -9 after any write: each program of each pillar is killed after each of its writes, one run for each.

The fleet then lives through a rotation, and removes an add-on, an account and a ServiceAccount. In the end every
credential has to work, and the objects have to be those of a fleet in which nothing was killed.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing import Pool

from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import ACCOUNTS_HUB, HUB, PULL_SECRETS, Crash, CredentialFleet
from bench.reliability.life import AGENT, CSR_AGENT, OPERATOR, SIZE, live_through, served_objects
from bench.reliability.virtual_run import VirtualRun, run_fleet_virtually
from watchword.api.meta import ObjectKey

PILLARS = {
    HUB: "registration, add-ons, discovery",
    AGENT: "cluster agent, add-on with a token",
    CSR_AGENT: "cluster agent, add-on with a certificate",
    ACCOUNTS_HUB: "managed service accounts, hub",
    f"{CSR_AGENT}-accounts": "managed service accounts, agent",
    PULL_SECRETS: "pull secrets",
    OPERATOR: "operator",
}
PASSING = frozenset({"events", "leases", "certificatesigningrequests"})
"""Collections whose objects come and go by themselves."""

RANDOM_END = re.compile(r"-[0-9a-z]{5}$|-[0-9a-f]{8,}$")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left after a run: objects by kind and name, and whether the program was killed at all."""

    objects: Counter[str]
    failing: int
    starts: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--step", type=int, default=1, help="kill after every so many writes (default: each)")
    parser.add_argument("--only", choices=sorted(PILLARS), help="one program only")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")


def measure(options: argparse.Namespace) -> Figure:
    """Return how many of all crash points were recovered from, by program."""
    names = [options.only] if options.only else list(PILLARS)
    expected = live(None)
    with Pool(options.jobs) as pool:
        found = pool.map(partial(_crash_everywhere, step=options.step, expected=expected), names, chunksize=1)
    points = sum(tried for tried, _ in found)
    lost = [trouble for _, troubles in found for trouble in troubles]
    rows = [(PILLARS[name], tried, tried - len(troubles)) for name, (tried, troubles) in zip(names, found, strict=True)]
    table = markdown_table(("program", "crash points", "recovered"), rows)
    line = f"{points - len(lost)} of {points} crash points left nothing half done and nothing done twice"
    return Figure(line, not lost and all(tried for tried, _ in found), "\n".join([table, *lost]))


def _crash_everywhere(name: str, *, step: int, expected: Outcome) -> tuple[int, list[str]]:
    """Kill one program after each of its writes; return how often, and what went wrong."""
    troubles: list[str] = []
    for tried in count():
        crash = Crash(name, 1 + tried * step)
        outcome = live(crash)
        if outcome.starts == 1:
            return tried, troubles  # it never wrote that often
        troubles += [f"{name} after write {crash.writes}: {found}" for found in _differences(expected, outcome)]
    raise AssertionError  # count never ends


def _differences(expected: Outcome, found: Outcome) -> Iterator[str]:
    if found.failing:
        yield f"{found.failing} credentials do not work"
    if found.objects != expected.objects:
        yield f"missing {expected.objects - found.objects}, too many {found.objects - expected.objects}"


def live(crash: Crash | None) -> Outcome:
    """Live one life, with one crash or without."""
    return run_fleet_virtually(partial(_live, crash), SIZE, VirtualRun(crash=crash))


async def _live(crash: Crash | None, fleet: CredentialFleet) -> Outcome:
    await live_through(fleet)
    starts = fleet.processes[crash.process].starts if crash else 1
    return Outcome(await _objects(fleet), len(await fleet.failing()), starts)


async def _objects(fleet: CredentialFleet) -> Counter[str]:
    """Return the objects of every kind, random ends of their names left out."""
    found: Counter[str] = Counter()
    async for kind, obj in served_objects(fleet):
        if kind.plural not in PASSING:
            found[f"{kind.kind} {RANDOM_END.sub('-*', str(ObjectKey.of(obj)))}"] += 1
    return found
