"""The next command that a view prints is run as it is printed: it mends the broken world, or shows the cause."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.health import test_cluster_worlds as clusters
from tests.health.conftest import World
from tests.health.test_worlds import WORLDS

from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run
from watchword.health.examination import Examination
from watchword.health.finding import urgent
from watchword.health.hub_reader import read_hub_facts
from watchword.health.hub_rules import decide_hub_findings

pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded")]

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

SHOWN = ("doctor", "addon", "serviceaccount")  # these show the cause in the words of the view
NEEDS = {"logs": "pods with a log", "init --grpc-server-hosts HOST": "a host in place of HOST"}
RUN = {
    name: command
    for name, (_, _, command) in WORLDS.items()
    if command.startswith("watchword ") and not command.removeprefix("watchword ").startswith(tuple(NEEDS))
}
REHEARSED = {"token": ("--dry-run",)}  # it waits for a signature, and no signer runs here
FINISHED_ELSEWHERE = {"hub's Deployment deleted with its namespace", "cluster-info is not signed"}
"""After `init` the operator or the signer does the rest; neither runs here."""
MENDING = {"scale", "delete"}
"""Verbs of kubectl after which the cause is gone; others show it."""
KUBECTL_SHOWS = {
    "image that cannot be pulled": "ImagePullBackOff",
    "operator crashes": "CrashLoopBackOff",
    "disk is full": "no space left on device",
    "ClusterManager is degraded": "1 of 1 is away",
    "pull secrets are configured wrongly": "https://x",
    "dashboard cannot start": "ImagePullBackOff",
    "damaged token Secret": "token-secret:",
    "signer does not run": "example.com/none",
    "operator reports that the hub cannot be reached": "connection refused",
    "Klusterlet is not applied": "may not create namespaces",
}
"""What stands in the output, beside the name of the object."""


async def printed_on_hub(world: World) -> set[str]:
    now = world.plane.clock.now()
    found = urgent(decide_hub_findings(await read_hub_facts(world.plane.client()), now=now))
    return {f"{each.sentence}\n{each.command}" for _, each in found}


@pytest.mark.parametrize("name", RUN)
async def test_the_printed_command_works(world: World, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    break_, cause, command = WORLDS[name]
    await break_(world)
    verb, *rest = shlex.split(command)[1:]

    code = await asyncio.to_thread(
        run, [verb, *rest, *REHEARSED.get(verb, ()), "--kubeconfig", str(world.plane.kubeconfig)]
    )

    printed = capsys.readouterr()
    if verb == "accept":  # no agent runs here that would ask for a certificate
        assert (code, "has not asked for a certificate yet" in printed.err) == (ExitCode.UNREACHABLE, True)
    else:
        assert code in (ExitCode.DONE, ExitCode.ATTENTION), printed.err
    if verb in SHOWN:
        expected = cause.rpartition(": ")[2].removesuffix("8m ago")  # later on a busy machine
        assert expected in " ".join(printed.out.split())
    if verb == "init" and name not in FINISHED_ELSEWHERE:
        assert [each for each in await printed_on_hub(world) if each.endswith(f"\n{command}")] == []


@needs_kubectl
@pytest.mark.parametrize("name", [name for name, (_, _, command) in WORLDS.items() if command.startswith("kubectl ")])
async def test_the_printed_kubectl_command_works(world: World, name: str, tmp_path: Path) -> None:
    break_, cause, command = WORLDS[name]
    await break_(world)

    shown = await kubectl(world, command, tmp_path)

    assert KUBECTL_SHOWS.get(name, "") in shown
    if not MENDING.isdisjoint(command.split()):
        assert not any(cause in each for each in await printed_on_hub(world))


@needs_kubectl
@pytest.mark.parametrize(
    "name", [name for name, (*_, command) in clusters.WORLDS.items() if command.startswith("kubectl ")]
)
async def test_the_printed_kubectl_command_works_on_a_cluster(member: World, name: str, tmp_path: Path) -> None:
    break_, _, cause, command = clusters.WORLDS[name]
    await break_(member)

    shown = await kubectl(member, command, tmp_path)

    assert KUBECTL_SHOWS.get(name, "") in shown
    if " scale " in command:
        found = urgent(await Examination(member.plane.client(), member.plane.clock).run())
        assert not any(cause in each.sentence for _, each in found)


async def kubectl(world: World, command: str, folder: Path) -> str:
    """Run the command as it is printed, with an editor that only shows the object."""
    words = [str(KUBECTL), *shlex.split(command)[1:]]
    environment = {
        **os.environ,
        "KUBECONFIG": str(world.plane.kubeconfig),
        "KUBECACHEDIR": str(folder),
        "KUBE_EDITOR": "cat",
    }
    done = await asyncio.to_thread(
        subprocess.run, words, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
