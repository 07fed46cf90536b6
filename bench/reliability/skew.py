"""Clocks of hub and clusters that differ: no credential may stop working."""

from __future__ import annotations

import argparse
from collections import Counter

from tests.simulation.settings import HOUR, MINUTE

from bench.reliability.credentials import CredentialKind
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import CredentialFleet, FleetSize
from bench.reliability.rotations import RotationLog
from bench.reliability.virtual_run import VirtualRun, pass_time, run_fleet_virtually

Refusals = Counter[CredentialKind]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--minutes", type=int, default=5, help="difference of the clocks, in both directions")
    parser.add_argument("--hours", type=int, default=12, help="virtual hours of each run")


def measure(options: argparse.Namespace) -> Figure:
    """Return in how many looks a credential was refused, with the clusters' clocks behind and ahead."""
    size = FleetSize(clusters=1, accounts=2, pull_secrets=2, lifetime=HOUR)
    refused: dict[int, Refusals] = {}
    rotated: dict[int, RotationLog] = {}
    for minutes in (-options.minutes, options.minutes):
        refused[minutes], rotated[minutes] = run_fleet_virtually(
            lambda fleet: _watch(fleet, options.hours), size, VirtualRun(skew=minutes * MINUTE)
        )
    head = ("credential", *(f"clusters {minutes:+d} min: refused looks (rotations)" for minutes in refused))
    rows = [
        (kind, *(f"{refused[minutes][kind]} ({len(rotated[minutes].left[kind])})" for minutes in refused))
        for kind in CredentialKind
    ]
    total = sum(sum(found.values()) for found in refused.values())
    looks = 2 * options.hours * 60
    line = f"{total} refusals in {looks} looks at every credential with clocks {options.minutes} min apart"
    rotations_everywhere = all(log.left[kind] for log in rotated.values() for kind in CredentialKind)
    return Figure(line, total == 0 and rotations_everywhere, markdown_table(head, rows))


async def _watch(fleet: CredentialFleet, hours: int) -> tuple[Refusals, RotationLog]:
    refused: Refusals = Counter()
    log = RotationLog()
    for _ in range(hours * (HOUR // MINUTE)):
        await pass_time(MINUTE)
        await log.look(fleet)
        refused.update(place.kind for place in await fleet.failing())
    return refused, log
