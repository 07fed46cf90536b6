"""Runs simulations from the command line: one seed to replay it, or many to search."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache

from watchword.testing.simulation.planes import Images
from watchword.testing.simulation.settings import Settings
from watchword.testing.simulation.simulation import Report, simulate


def main() -> int:
    """Simulate what the arguments ask for; 1 when a promise was broken."""
    options = _parser().parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets must not differ between two runs
        again = [sys.executable, "-m", str(__package__), *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 - ourselves again
    started, broken = time.monotonic(), []
    for report in _reports(options):
        sys.stdout.write(f"{report}\n")
        sys.stdout.flush()
        if not report.is_clean:
            broken.append(report.settings.seed)
    seconds = time.monotonic() - started
    sys.stdout.write(f"{options.seeds} lives in {seconds:.0f} s; broken promises with seeds: {broken or 'none'}\n")
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m watchword.testing.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--incidents", type=float, default=Settings().incidents_per_day, help="faults a day")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    return parser


def _reports(options: argparse.Namespace) -> Iterator[Report]:
    seeds = range(options.seed, options.seed + options.seeds)
    common = Settings(clusters=options.clusters, days=options.days, incidents_per_day=options.incidents)
    lives = [replace(common, seed=seed) for seed in seeds]
    if options.jobs == 1:
        yield from map(_simulate, lives)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        yield from pool.map(_simulate, lives)


@cache
def _images() -> Images:
    return Images.make()


def _simulate(settings: Settings) -> Report:
    return simulate(settings, _images())


if __name__ == "__main__":
    sys.exit(main())
