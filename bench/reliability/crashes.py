"""Kill -9 after any write: each program of each pillar is killed after each of its writes, one run for each.

Renewals of Leases are left out: they repeat, and change nothing but a time.
The fleet then lives through a rotation, and removes an add-on, an account and a ServiceAccount. In the end every
credential has to work, and the objects have to be those of a fleet in which nothing was killed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool

from tests.simulation.history import History

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

PROGRESS_EVERY = 10  # crash points
NOT_REACHED = "the life had fewer writes"
"""A life may have a few writes less than the first one, of Events above all: its last crash points are not counted."""

SUCCESS = re.compile(r" 2\d\d$")
RENEWAL = re.compile(r"/leases/[^/]+ 200$")
RANDOM_END = re.compile(r"-[0-9a-z]{5}$|-[0-9a-f]{8,}$")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left after a run: objects by kind and name, credentials that fail, crash points of each program."""

    objects: Counter[str]
    failing: int
    crash_points: Mapping[str, Sequence[int]]  # the numbers of its writes, without renewals of Leases
    starts: Mapping[str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--step", type=int, default=1, help="kill at every so many crash points (default: each)")
    parser.add_argument("--only", choices=sorted(PILLARS), help="one program only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (default: cores)")


def measure(options: argparse.Namespace) -> Figure:
    """Return how many of all crash points were recovered from, by program."""
    names = [options.only] if options.only else list(PILLARS)
    expected = live(None)
    crashes = [Crash(name, write) for name in names for write in expected.crash_points[name][:: options.step]]
    tried, problems = Counter[str](), dict[Crash, list[str]]()
    with Pool(options.jobs) as pool:
        for crash, found in pool.imap_unordered(partial(_try_crash, expected=expected), crashes):
            if found == [NOT_REACHED]:
                continue
            tried[crash.process] += 1
            if found:
                problems[crash] = found
            _report_progress(tried.total(), len(crashes), problems)
    return _figure(names, tried, problems)


def _figure(names: list[str], tried: Counter[str], problems: Mapping[Crash, list[str]]) -> Figure:
    lost = Counter(crash.process for crash in problems)
    rows = [(PILLARS[name], tried[name], tried[name] - lost[name]) for name in names]
    table = markdown_table(("program", "crash points", "recovered"), rows)
    lines = [f"{crash.process} after write {crash.writes}: {'; '.join(found)}" for crash, found in problems.items()]
    line = (
        f"{tried.total() - lost.total()} of {tried.total()} crash points left nothing half done and nothing done twice"
    )
    return Figure(line, not lost and all(tried[name] for name in names), "\n".join([table, *lines]))


def _report_progress(tried: int, crashes: int, problems: Mapping[Crash, list[str]]) -> None:
    if tried % PROGRESS_EVERY == 0 or tried == crashes:
        print(
            f"{tried} of {crashes} crash points tried, {len(problems)} not recovered from", file=sys.stderr, flush=True
        )


def _try_crash(crash: Crash, *, expected: Outcome) -> tuple[Crash, list[str]]:
    """Kill one program after one of its writes; return what is wrong afterwards."""
    return crash, list(_differences(expected, live(crash), crash))


def _differences(expected: Outcome, found: Outcome, crash: Crash) -> Iterator[str]:
    if found.starts[crash.process] == expected.starts[crash.process]:
        # The life may end with the very write after which the program is to be killed.
        is_reached = max(found.crash_points[crash.process], default=0) > crash.writes
        yield "the program was not killed" if is_reached else NOT_REACHED
    if found.failing:
        yield f"{found.failing} credentials do not work"
    if found.objects != expected.objects:
        yield f"missing {expected.objects - found.objects}, too many {found.objects - expected.objects}"


def live(crash: Crash | None) -> Outcome:
    """Live one life, with one crash or without."""
    return run_fleet_virtually(_live, SIZE, VirtualRun(crash=crash))


async def _live(fleet: CredentialFleet) -> Outcome:
    await live_through(fleet)
    points = {name: _crash_points(fleet.history, name) for name in fleet.processes}
    starts = {name: process.starts for name, process in fleet.processes.items()}
    return Outcome(await _objects(fleet), len(await fleet.failing()), points, starts)


def _crash_points(history: History, program: str) -> list[int]:
    """Return the numbers of the writes of a program that ran once, renewals of Leases left out."""
    own = [entry.what for entry in history.entries if entry.actor == program and SUCCESS.search(entry.what)]
    return [number for number, what in enumerate(own, start=1) if not RENEWAL.search(what)]


async def _objects(fleet: CredentialFleet) -> Counter[str]:
    """Return the objects of every kind, random ends of their names left out."""
    found: Counter[str] = Counter()
    async for kind, obj in served_objects(fleet):
        if kind.plural not in PASSING:
            found[f"{kind.kind} {RANDOM_END.sub('-*', str(ObjectKey.of(obj)))}"] += 1
    return found
