"""The next command that a view prints is run as it is printed: it works on the broken world, or shows the cause."""

from __future__ import annotations

import asyncio
import shlex

import pytest
from tests.health.conftest import World
from tests.health.test_worlds import WORLDS

from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run

pytestmark = [pytest.mark.real_time, pytest.mark.planes("embedded")]

REHEARSED = {"init": ("--dry-run", "--no-probe"), "accept": ("--dry-run",), "token": ("--dry-run",)}
"""Commands that change something."""
SHOWN = ("doctor", "addon", "serviceaccount")  # these show the cause in the words of the view
NEEDS = {"logs": "pods with a log", "init --grpc-server-hosts HOST": "a host in place of HOST"}
RUN = {
    name: command
    for name, (_, _, command) in WORLDS.items()
    if command.startswith("watchword ") and not command.removeprefix("watchword ").startswith(tuple(NEEDS))
}


@pytest.mark.parametrize("name", RUN)
async def test_the_printed_command_works(world: World, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    break_, cause, command = WORLDS[name]
    await break_(world)
    verb, *rest = shlex.split(command)[1:]

    argv = [verb, *rest, *REHEARSED.get(verb, ()), "--kubeconfig", str(world.plane.kubeconfig)]
    code = await asyncio.to_thread(run, argv)

    printed = capsys.readouterr()
    if verb == "accept":  # no agent runs here that would ask for a certificate
        assert (code, "has not asked for a certificate yet" in printed.err) == (ExitCode.UNREACHABLE, True)
    else:
        assert code in (ExitCode.DONE, ExitCode.ATTENTION), printed.err
    if verb in SHOWN:
        assert cause.rpartition(": ")[2] in " ".join(printed.out.split())
