"""Rotations that finish in time while requests fail and the hub restarts every hour."""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta

from tests.simulation.settings import BACKGROUND_FAULTS, HOUR, MINUTE

from bench.reliability.credentials import CredentialKind, CredentialPlace, HeldCredential
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import CredentialFleet, FleetSize
from bench.reliability.virtual_run import VirtualRun, pass_time, run_fleet_virtually

LEAST_LEFT = 0.1
"""The part of a credential's life that must be left when its successor is in place."""


@dataclass
class RotationLog:
    """How much life each credential had left when it was replaced."""

    left: dict[CredentialKind, list[float]] = field(default_factory=lambda: defaultdict(list))
    _held: dict[CredentialPlace, HeldCredential] = field(default_factory=dict)

    async def look(self, fleet: CredentialFleet) -> None:
        """Compare every credential with the one that was there before."""
        for place in fleet.places:
            held, before = await place.read(fleet.plane), self._held.get(place)
            if held is None or held == before:
                continue
            if before is not None:
                self.left[place.kind].append(before.life_left(fleet.plane.clock.now()))
            self._held[place] = held

    def finish(self, fleet: CredentialFleet) -> None:
        """Count a credential that expired and was not replaced as a rotation that failed."""
        for place, held in self._held.items():
            left = held.life_left(fleet.plane.clock.now())
            if left < LEAST_LEFT:
                self.left[place.kind].append(left)

    @property
    def total(self) -> int:
        """How many rotations there were."""
        return sum(len(found) for found in self.left.values())

    @property
    def in_time(self) -> int:
        """How many of them left enough life."""
        return sum(left >= LEAST_LEFT for found in self.left.values() for left in found)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--hours", type=int, default=24, help="virtual hours (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=4, help="how many fleets, each of another seed")
    parser.add_argument("--clusters", type=int, default=2, help="clusters with each driver of add-ons")
    parser.add_argument("--secrets", type=int, default=4, help="managed service accounts, and pull secrets")
    parser.add_argument("--lifetime", type=int, default=3600, help="seconds that each credential is valid")


def measure(options: argparse.Namespace) -> Figure:
    """Return the part of all rotations that left enough life, by kind."""
    lifetime = timedelta(seconds=options.lifetime)
    size = FleetSize(options.clusters, options.secrets, options.secrets, lifetime)
    left: dict[CredentialKind, list[float]] = defaultdict(list)
    total = in_time = 0
    for seed in range(1, options.seeds + 1):
        log = run_fleet_virtually(lambda fleet: _rotate(fleet, options.hours), size, VirtualRun(seed))
        total, in_time = total + log.total, in_time + log.in_time
        for kind, found in log.left.items():
            left[kind] += found
    rows = [(kind, len(left[kind]), f"{min(left[kind], default=0):.0%}") for kind in CredentialKind]
    line = f"{in_time} of {total} rotations ended with at least {LEAST_LEFT:.0%} of life left"
    table = markdown_table(("credential", "rotations", "least life left"), rows)
    return Figure(line, in_time == total and all(count for _, count, _ in rows), table)


async def _rotate(fleet: CredentialFleet, hours: int) -> RotationLog:
    """Let requests fail, and restart the hub and its API server every hour."""
    for link in fleet.links.values():
        link.plans.append(BACKGROUND_FAULTS)
    log = RotationLog()
    for minute in range(hours * (HOUR // MINUTE)):
        await log.look(fleet)
        await pass_time(MINUTE)
        if minute % (HOUR // MINUTE) == HOUR // MINUTE - 1:
            fleet.restart_hub()
            await fleet.plane.restart()
    log.finish(fleet)
    return log
