"""Where the token is shown: on a terminal, and in no pipe, process list or log."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]
TOKEN = "x7k2m9.q8w3e5r1t0y6u4i2"


async def on_a_terminal(*argv: str, standard_input: bytes) -> str:
    """Run a command whose standard output is a terminal, and return what it shows."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "watchword", *argv, stdin=asyncio.subprocess.PIPE, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    reading = asyncio.create_task(asyncio.to_thread(_read_all, ours))
    await process.communicate(standard_input)
    shown = await reading
    os.close(ours)
    return shown.decode()


def _read_all(descriptor: int) -> bytes:
    shown = b""
    while True:
        try:
            chunk = os.read(descriptor, 4096)
        except OSError:  # the other side has closed
            return shown
        if not chunk:
            return shown
        shown += chunk


async def test_terminal_shows_the_complete_join_command(cli_fleet: Fleet) -> None:
    flags = ["--no-deploy", "--no-probe", "--token", "-", "--kubeconfig", str(cli_fleet.plane.kubeconfig)]
    shown = await on_a_terminal("init", *flags, standard_input=TOKEN.encode())
    piped = await cli_fleet.run("init", "--no-deploy", "--no-probe")
    assert f"--token {TOKEN}" in shown
    assert TOKEN[7:] not in piped
    await cli_fleet.run("token", "delete", TOKEN[:6])
