"""Recovery from an outage that is longer than a credential's life.

A cluster whose own certificate has expired needs one step of a person by design (docs/howto/recover.md); the bar
takes it for the cluster, and everything else has to follow by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import timedelta

from tests.simulation.settings import HOUR, MINUTE

from bench.reliability.credentials import CredentialKind
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import CredentialFleet, FleetSize
from bench.reliability.virtual_run import VirtualRun, pass_time, run_fleet_virtually
from watchword.admin.accept import ClusterAcceptor, HubAdmin
from watchword.admin.errors import NotReady
from watchword.admin.rejoin import TakeOver
from watchword.credentials.certificates.name_ownership import ApprovalTerms

LOOK_EVERY = 5  # seconds
LIFETIME = HOUR
PATIENCE = timedelta(minutes=10)
STEP = "`watchword rejoin --take-over`"
NEEDS_STEP = frozenset({CredentialKind.CLUSTER, CredentialKind.ADDON_CERTIFICATE, CredentialKind.ADDON_TOKEN})
"""A cluster's own certificate, and what is renewed with it."""

Recovery = Mapping[CredentialKind, float | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--lives", type=int, default=3, help="length of the outage, in lives of a credential")
    parser.add_argument("--seeds", type=int, default=4, help="how many fleets, each of another seed")


def measure(options: argparse.Namespace) -> Figure:
    """Return how long after the outage, or after the person's step, the slowest credential was valid again."""
    size = FleetSize(clusters=1, accounts=2, pull_secrets=2, lifetime=LIFETIME)
    runs = [
        run_fleet_virtually(lambda fleet: _recover(fleet, options.lives), size, VirtualRun(seed))
        for seed in range(1, options.seeds + 1)
    ]
    slowest = {kind: _slowest([run[kind] for run in runs]) for kind in CredentialKind}
    back = [seconds for seconds in slowest.values() if seconds is not None]
    line = (
        f"after an outage of {options.lives} lives {len(back)} of {len(slowest)} kinds of credentials recovered, "
        f"the slowest after {max(back, default=0):.0f} s"
    )
    rows = [
        (kind, STEP if kind in NEEDS_STEP else "none", "never" if seconds is None else f"{seconds:.0f} s")
        for kind, seconds in slowest.items()
    ]
    table = markdown_table(("credential", "a person's step", "valid again after"), rows)
    return Figure(line, len(back) == len(slowest), table)


async def _recover(fleet: CredentialFleet, lives: int) -> Recovery:
    """Cut every program off for so many lives, then watch each credential come back."""
    for link in fleet.links.values():
        link.sever()
    await pass_time(LIFETIME * lives)
    expired = {place.kind for place in await fleet.failing()}
    assert expired == set(CredentialKind), f"the outage was too short: only {expired} expired"
    for link in fleet.links.values():
        link.mend()
    alone = await _until_valid(fleet, [kind for kind in CredentialKind if kind not in NEEDS_STEP])
    await _take_over_clusters(fleet)
    return {**alone, **await _until_valid(fleet, [kind for kind in CredentialKind if kind in NEEDS_STEP])}


async def _until_valid(fleet: CredentialFleet, kinds: Sequence[CredentialKind]) -> Recovery:
    """Return after how many seconds every credential of each kind is honoured; None: not within the patience."""
    recovered: dict[CredentialKind, float | None] = dict.fromkeys(kinds)
    for second in range(LOOK_EVERY, int(PATIENCE.total_seconds()), LOOK_EVERY):
        await pass_time(timedelta(seconds=LOOK_EVERY))
        failing = {place.kind for place in await fleet.failing()}
        for kind in kinds:
            if recovered[kind] is None and kind not in failing:
                recovered[kind] = float(second)
        if not failing & set(kinds):
            break
    return recovered


async def _take_over_clusters(fleet: CredentialFleet) -> None:
    """Do what `watchword rejoin --take-over` does, once the agent of each cluster asks for a certificate."""
    acceptor = ClusterAcceptor(
        HubAdmin(fleet.client, fleet.plane.clock), ApprovalTerms(requesters=frozenset(), anyone=True)
    )
    for cluster in fleet.harness.clusters:
        for _ in range(PATIENCE // MINUTE):
            try:
                await TakeOver(acceptor).run(cluster, None)
                break
            except NotReady:
                await pass_time(MINUTE)


def _slowest(found: list[float | None]) -> float | None:
    known = [seconds for seconds in found if seconds is not None]
    return max(known) if len(known) == len(found) else None
