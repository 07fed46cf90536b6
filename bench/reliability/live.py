"""A sample of incidents on real sockets and a control plane in a process of its own: what virtual time cannot show.

The control plane and the hub are processes that are killed with SIGKILL; the other programs are cancelled tasks.
Every connection leads through a proxy, which resets it, lets it fall silent or refuses it. The states of `heal` are
broken as well. With most of it a credential is lost, and every credential has to work again within the bound.
`lived_kinds.py` says which incidents of the simulation are among them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from tests.helpers.fleet import BOOTSTRAP_USER
from tests.simulation.network import ProcessRun
from tests.simulation.process import RESTART_AFTER, Program
from tests.simulation.secret_leaks import capture_log

from bench.reliability.credentials import CredentialKind
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import HUB, CredentialFleet, FleetSize, open_credential_fleet
from bench.reliability.heal import STATES, State, Step, all_work, heal_all
from bench.reliability.tcp_proxy import TcpProxy
from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339_micro
from watchword.pki.keys import PrivateKey
from watchword.runtime.event_loop import new_loop
from watchword.testing.errors import UnsupportedByPlane
from watchword.testing.plane import Plane
from watchword.testing.process import ChildProcess
from watchword.testing.subprocess_backend import SubprocessBackend

CUT = timedelta(seconds=5)
PAUSE = timedelta(seconds=1)
CAUSE_LASTS = timedelta(seconds=10)  # of the states of `heal`
AUTO_APPROVAL = ("--feature-gates=ManagedClusterAutoApproval=true", f"--auto-approved-csr-users={BOOTSTRAP_USER}")
HUB_PROGRAM = (sys.executable, "-m", "watchword", "hub", "--no-install", "--disable-leader-election", *AUTO_APPROVAL)


class LiveBackend(SubprocessBackend):
    """The control plane in a process of its own; its signing key can change, and clients reach it through a proxy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.proxy = TcpProxy(self._port)

    async def open(self) -> None:
        """Start, and lead every client through the proxy."""
        await asyncio.to_thread(self.start)
        await self.proxy.open()
        self.server = f"https://127.0.0.1:{self.proxy.port}"

    async def rotate_signing_key(self, *, keep_old: bool) -> None:
        """Restart with another key for the tokens of ServiceAccounts; those of the key before are refused."""
        if keep_old:
            raise UnsupportedByPlane("a process of its own accepts one signing key: rotate it without keep_old")
        await asyncio.to_thread(self.stop)
        (self._data / "pki" / "service-accounts.key").write_bytes(PrivateKey.generate().pem.reveal())
        await asyncio.to_thread(self.start)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--rounds", type=int, default=1, help="how often each incident happens (default: %(default)s)")
    parser.add_argument("--only", default="", help="incidents whose name contains this")


def measure(options: argparse.Namespace) -> Figure:
    """Return after how many seconds of real time everything worked again."""
    with (
        capture_log(),
        tempfile.TemporaryDirectory(prefix="watchword-bar-") as folder,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        found = runner.run(_live(Path(folder), options.rounds, options.only))
    rows = [(what, "never" if seconds is None else f"{seconds:.0f} s") for what, seconds in found.items()]
    healed = [seconds for seconds in found.values() if seconds is not None]
    slowest = f"the slowest after {max(healed, default=0):.0f} s"
    line = f"{len(healed)} of {len(found)} incidents on sockets were recovered from, {slowest}"
    return Figure(line, bool(found) and len(healed) == len(found), markdown_table(("incident", "all well after"), rows))


async def _live(folder: Path, rounds: int, only: str) -> dict[str, float | None]:
    slowest: dict[str, float | None] = {}
    async with _open_backend(folder) as backend, _open_fleet(backend) as fleet:
        states = [state for state in live_states(backend) if only in state.what]
        for _ in range(rounds):
            for what, seconds in (await heal_all(fleet, states, PAUSE, CAUSE_LASTS)).items():
                known = slowest.get(what, 0.0)
                slowest[what] = None if seconds is None or known is None else max(seconds, known)
    return slowest


@asynccontextmanager
async def _open_backend(folder: Path) -> AsyncIterator[LiveBackend]:
    backend = LiveBackend(folder)
    try:
        await backend.open()
        yield backend
    finally:
        backend.proxy.close()
        await asyncio.to_thread(backend.stop)


@asynccontextmanager
async def _open_fleet(backend: LiveBackend) -> AsyncIterator[CredentialFleet]:
    """Run the fleet, whose hub is a process of its own."""
    plane = Plane(backend, private=True)
    try:
        async with open_credential_fleet(plane, FleetSize(lifetime=timedelta(hours=2))) as fleet:
            fleet.processes[HUB].program = _hub_process(backend, plane.kubeconfig)
            fleet.processes[HUB].kill(restart_after=0)
            yield fleet
    finally:
        await plane.close()


def _hub_process(backend: LiveBackend, kubeconfig: Path) -> Program:
    async def run(_: ProcessRun) -> None:
        child = ChildProcess([*HUB_PROGRAM, f"--kubeconfig={kubeconfig}"], backend.folder / "hub.log")
        try:
            while child.is_running():  # noqa: ASYNC110 - what ends is another process
                await asyncio.sleep(PAUSE.total_seconds())
        finally:
            child.kill()

    return run


async def _lose_credential(fleet: CredentialFleet) -> None:
    """Delete the credential of an add-on: what is left of the programs and their connections has to bring it back."""
    await fleet.client.delete(SECRETS, fleet.places_of(CredentialKind.ADDON_TOKEN)[0].secret)


async def _kill_control_plane(fleet: CredentialFleet) -> None:
    await fleet.plane.restart(kill=True)
    await _lose_credential(fleet)


async def _restart_control_plane(fleet: CredentialFleet) -> None:
    await fleet.plane.restart(kill=False)
    await _lose_credential(fleet)


async def _kill_hub(fleet: CredentialFleet) -> None:
    fleet.processes[HUB].kill(restart_after=RESTART_AFTER)
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


def _reset_connections(proxy: TcpProxy) -> Step:
    async def step(fleet: CredentialFleet) -> None:
        if not proxy.reset():
            raise RuntimeError("no connection leads through the proxy")
        await _lose_credential(fleet)

    return step


def _cut_connections(proxy: TcpProxy) -> Step:
    async def step(fleet: CredentialFleet) -> None:
        await _lose_credential(fleet)
        proxy.close()
        await asyncio.sleep(CUT.total_seconds())
        await proxy.open()

    return step


def _silence_connections(proxy: TcpProxy) -> Step:
    async def step(fleet: CredentialFleet) -> None:
        await _lose_credential(fleet)
        proxy.hold()
        await asyncio.sleep(CUT.total_seconds())
        proxy.release()

    return step


def live_states(backend: LiveBackend) -> list[State]:
    """Return what is lived on sockets: incidents of processes and connections, and the states of `heal`."""
    proxy = backend.proxy
    return [
        State("the control plane is killed", _kill_control_plane, all_work),
        State("the control plane is restarted", _restart_control_plane, all_work),
        State("the hub is killed", _kill_hub, all_work),
        State("every program is killed", _kill_programs, all_work),
        State("every program is replaced during a rotation", _replace_programs, all_work),
        State("every connection is reset", _reset_connections(proxy), all_work),
        State("every connection is refused for 5 s", _cut_connections(proxy), all_work),
        State("every connection is silent for 5 s", _silence_connections(proxy), all_work),
        *STATES,
    ]
