"""A sample of incidents on real sockets and a control plane in a process of its own: what virtual time cannot show.

The control plane is killed with SIGKILL and restarted, programs are killed, connections are cut, and a few states of
`heal` are broken; each time a credential is lost with it, and every credential has to work again within the bound.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

from tests.simulation.process import RESTART_AFTER
from tests.simulation.secret_leaks import capture_log

from bench.reliability.credentials import CredentialKind
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import CredentialFleet, FleetSize, open_credential_fleet
from bench.reliability.heal import STATES, State, all_work, heal_all
from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339_micro
from watchword.runtime.event_loop import new_loop
from watchword.testing.plane import Plane
from watchword.testing.subprocess_backend import open_subprocess

CUT = timedelta(seconds=5)
PAUSE = timedelta(seconds=1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--rounds", type=int, default=1, help="how often each incident happens (default: %(default)s)")


def measure(options: argparse.Namespace) -> Figure:
    """Return after how many seconds of real time everything worked again."""
    with (
        capture_log(),
        tempfile.TemporaryDirectory(prefix="watchword-bar-") as folder,
        open_subprocess(Path(folder)) as backend,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        found = runner.run(_live(Plane(backend, private=True), options.rounds))
    rows = [(what, "never" if seconds is None else f"{seconds:.0f} s") for what, seconds in found.items()]
    healed = [seconds for seconds in found.values() if seconds is not None]
    slowest = f"the slowest after {max(healed, default=0):.0f} s"
    line = f"{len(healed)} of {len(found)} incidents on sockets were recovered from, {slowest}"
    return Figure(line, len(healed) == len(found), markdown_table(("incident", "all well after"), rows))


async def _live(plane: Plane, rounds: int) -> dict[str, float | None]:
    states = [*INCIDENTS, *(state for state in STATES if state.mends is None and not state.what.startswith("signing"))]
    slowest: dict[str, float | None] = {}
    try:
        async with open_credential_fleet(plane, FleetSize(lifetime=timedelta(hours=2))) as fleet:
            for _ in range(rounds):
                for what, seconds in (await heal_all(fleet, states, PAUSE)).items():
                    known = slowest.get(what, 0.0)
                    slowest[what] = None if seconds is None or known is None else max(seconds, known)
    finally:
        await plane.close()
    return slowest


async def _lose_credential(fleet: CredentialFleet) -> None:
    """Delete the credential of an add-on: what is left of the programs and their connections has to bring it back."""
    await fleet.client.delete(SECRETS, fleet.places_of(CredentialKind.ADDON_TOKEN)[0].secret)


async def _kill_control_plane(fleet: CredentialFleet) -> None:
    await fleet.plane.restart(kill=True)
    await _lose_credential(fleet)


async def _restart_control_plane(fleet: CredentialFleet) -> None:
    await fleet.plane.restart(kill=False)
    await _lose_credential(fleet)


async def _kill_programs(fleet: CredentialFleet) -> None:
    for process in fleet.processes.values():
        process.kill(restart_after=RESTART_AFTER)
    await _lose_credential(fleet)


async def _replace_programs(fleet: CredentialFleet) -> None:
    """Exchange every program while a rotation of every cluster is under way, twice."""
    for _ in range(2):
        asked = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339_micro(fleet.plane.clock.now())}}}
        for cluster in (await fleet.client.list(MANAGED_CLUSTERS)).items:
            await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.of(cluster), asked)
        for process in fleet.processes.values():
            process.kill(restart_after=PAUSE.total_seconds())
        await asyncio.sleep(2 * PAUSE.total_seconds())


async def _cut_connections(fleet: CredentialFleet) -> None:
    for link in fleet.links.values():
        link.sever()
    await _lose_credential(fleet)
    await asyncio.sleep(CUT.total_seconds())
    for link in fleet.links.values():
        link.mend()


INCIDENTS = (
    State("the control plane is killed", _kill_control_plane, all_work),
    State("the control plane is restarted", _restart_control_plane, all_work),
    State("every program is killed", _kill_programs, all_work),
    State("every program is replaced during a rotation", _replace_programs, all_work),
    State("every connection is cut for 5 s", _cut_connections, all_work),
)
