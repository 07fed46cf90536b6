"""Runs simulations from the command line: one seed to replay it, or many to search."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from datetime import timedelta
from functools import cache
from itertools import islice, takewhile
from random import Random, SystemRandom

from msgspec.structs import replace
from tests.simulation.catalog import FURTHER, INCIDENTS, PILLARS, cells
from tests.simulation.fleet import make_profiles
from tests.simulation.lives import FIXED_LIVES, new_lives
from tests.simulation.planes import PlaneImages
from tests.simulation.settings import DAY, SimulationSettings
from tests.simulation.shrinking import Shrinker, as_test
from tests.simulation.simulation import SimulationReport, simulate

RARELY = (1_000_000, 20, 100)  # a life makes little garbage that goes in circles, and many objects to search for it


def main() -> int:
    """Simulate what the arguments ask for; 1 when a promise was broken."""
    options = _parser().parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets must not differ between two runs
        again = [sys.executable, "-m", str(__package__), *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    gc.set_threshold(*RARELY)
    started, lives, broken, reached = (
        time.monotonic(),
        list[SimulationSettings](),
        list[int](),
        Counter[tuple[str, str]](),
    )
    for report in _reports(options):
        lives.append(report.settings)
        reached.update(report.reached)
        _print(report.headline)
        if not report.is_clean:
            broken.append(report.settings.seed)
            _explain(report, options.shrink)
    seconds, cpu = time.monotonic() - started, _cpu_seconds()
    asked = len(FIXED_LIVES) if options.fixed else options.seeds
    lived = len(lives)
    missing = options.lives - lived if options.explore else asked - lived
    short = f" ({missing} more did not fit into {options.within:g} s)" if missing > 0 else ""
    _print(f"{lived} lives in {seconds:.0f} s, {cpu / max(lived, 1):.1f} s of CPU for each{short}")
    seeds = f"broken promises with seeds: {', '.join(map(str, broken)) or 'none'}"
    _print(f"{lived} lives of at least {options.lives}, {seeds}; {kinds_of(lives)}" if options.explore else seeds)
    gc.freeze()  # else the interpreter searches all of it for garbage once more before it ends
    too_few = options.explore and missing > 0
    return 1 if broken or too_few or (options.fixed and not print_coverage(reached)) else 0


def kinds_of(lives: Sequence[SimulationSettings]) -> str:
    """Return how many lives had each number of clusters, a cluster in each further pillar, and drift."""
    clusters = Counter(life.clusters for life in lives)
    pillars = Counter(name for life in lives for name in {n for p in make_profiles(life, Random(0)) for n in p.pillars})
    sizes = ", ".join(f"{number}: {clusters[number]}" for number in sorted(clusters))
    named = ", ".join(f"{pillar.name}: {pillars[pillar.name]}" for pillar in FURTHER)
    plain, drifting = sum(not life.pillars for life in lives), sum(life.drift > 0 for life in lives)
    return f"by clusters {sizes}; by further pillars {named}, none: {plain}; with drift {drifting}"


def print_coverage(reached: Counter[tuple[str, str]]) -> bool:
    """Print how often each incident reached each pillar that it can reach; return whether none was left out."""
    wanted, columns = set(cells()), [pillar.name for pillar in PILLARS[1:]]
    width = max(len(kind) for kind in INCIDENTS)
    _print(" ".join([" " * width, *columns]))
    for kind in INCIDENTS:
        counts = (str(reached[kind, name]) if (kind, name) in wanted else "·" for name in columns)
        row = (f"{count:>{len(name)}}" for count, name in zip(counts, columns, strict=True))
        _print(" ".join([f"{kind:<{width}}", *row]))
    missed = [f"{kind} and {name}" for kind, name in cells() if not reached[kind, name]]
    _print(f"cells of incidents and pillars: {len(wanted) - len(missed)} of {len(wanted)} reached")
    if missed:
        _print(f"not reached: {', '.join(missed)}")
    return not missed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=_positive, default=1, help="how many, one after the other")
    parser.add_argument("--clusters", type=int, default=SimulationSettings().clusters)
    parser.add_argument("--days", type=int, default=SimulationSettings().days)
    parser.add_argument("--incidents", type=float, default=SimulationSettings().incidents_per_day, help="faults a day")
    parser.add_argument("--pillars", default="", help="besides registration, add-ons and works; separated by commas")
    parser.add_argument("--drift", type=float, default=0.0, help="seconds that each pass of the loop takes")
    parser.add_argument("--credentials", type=_days, default=_days("3,9"), help="days of the shortest and longest life")
    lives = parser.add_mutually_exclusive_group()
    lives.add_argument("--fixed", action="store_true", help="the fixed lives of CI, of mixed sizes and densities")
    lives.add_argument("--explore", action="store_true", help="new lives of mixed sizes, until --within is over")
    parser.add_argument(
        "--lives", type=_positive, default=1, help="of --explore: at least so many, else it ends with 1"
    )
    parser.add_argument("--jobs", type=_positive, default=1, help="processes at a time")
    parser.add_argument("--within", type=float, default=float("inf"), help="begin no life after so many seconds")
    parser.add_argument(
        "--shrink", type=float, default=300.0, help="CPU seconds to search for a smaller failure; 0: none"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _days(text: str) -> tuple[timedelta, timedelta]:
    shortest, longest = (timedelta(days=float(part)) for part in text.split(","))
    return shortest, longest


def _reports(options: argparse.Namespace) -> Iterator[SimulationReport]:
    lives = _lives(options)
    end = time.monotonic() + options.within
    timely = takewhile(lambda _: time.monotonic() < end, lives)  # new lives have no end of their own
    if options.jobs == 1:
        yield from map(_simulate, timely)
        return
    with ProcessPoolExecutor(options.jobs, initializer=gc.set_threshold, initargs=RARELY) as pool:
        yield from _side_by_side(pool, timely, options.jobs)


def _lives(options: argparse.Namespace) -> Iterator[SimulationSettings]:
    if options.fixed:
        return iter(FIXED_LIVES)
    if options.explore:
        return new_lives(SystemRandom())
    pillars = tuple(filter(None, options.pillars.split(",")))
    common = SimulationSettings(
        clusters=options.clusters,
        days=options.days,
        incidents_per_day=options.incidents,
        drift=options.drift,
        pillars=pillars,
        shortest_life=options.credentials[0],
        longest_life=options.credentials[1],
    )
    return (replace(common, seed=seed) for seed in range(options.seed, options.seed + options.seeds))


def _side_by_side(
    pool: ProcessPoolExecutor, lives: Iterator[SimulationSettings], jobs: int
) -> Iterator[SimulationReport]:
    """Live several lives at a time, the next one as soon as one is over."""
    running: set[Future[SimulationReport]] = {pool.submit(_simulate, life) for life in islice(lives, jobs)}
    while running:
        over, running = wait(running, return_when=FIRST_COMPLETED)
        running |= {pool.submit(_simulate, life) for life in islice(lives, len(over))}
        yield from (future.result() for future in over)


@cache
def _images() -> PlaneImages:
    """Make the images once in each process; they and the modules stay, so no search for garbage looks at them again."""
    images = PlaneImages.make()
    gc.collect()
    gc.freeze()
    return images


def _simulate(settings: SimulationSettings) -> SimulationReport:
    return simulate(settings, _images())


def _explain(report: SimulationReport, seconds: float) -> None:
    """Return how to see a failure again, and the smallest life that breaks the same promise."""
    settings = report.settings
    size = f"CLUSTERS={settings.clusters} DAYS={settings.days} INCIDENTS={settings.incidents_per_day:g}"
    size += f" DRIFT={settings.drift:g}" if settings.drift else ""
    size += f" PILLARS={','.join(settings.pillars)}" if settings.pillars else ""
    lives = settings.shortest_life / DAY, settings.longest_life / DAY
    if settings.longest_life != SimulationSettings().longest_life:
        size += f" CREDENTIALS={lives[0]:g},{lives[1]:g}"
    _print(f"replay with: make simulate SEED={settings.seed} {size}")
    smallest = Shrinker(_images(), seconds).shrink(report) if seconds and report.incidents else report
    _print(f"the smallest life found that breaks the same promise:\n{smallest}")
    _print(f"as a test:\n{as_test(smallest)}")


def _cpu_seconds() -> float:
    """Return what this process and those it waited for have used."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
