"""`watchword dashboard` as a process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import aiohttp
import pytest
from tests.dashboard.harness import fetch
from tests.helpers.credential_fleet import CredentialFleet

from watchword.cli.main import run
from watchword.testing.plane import Plane
from watchword.testing.process import free_port

PROGRAM = (sys.executable, "-m", "watchword", "dashboard")


@pytest.mark.real_time
@pytest.mark.planes("embedded")
async def test_command_prints_an_address_and_another_one_after_it_was_used(plane: Plane, hub: CredentialFleet) -> None:
    health = f"127.0.0.1:{free_port()}"
    started = await asyncio.create_subprocess_exec(
        *PROGRAM, "--kubeconfig", str(plane.kubeconfig), "--listen", health,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert started.stdout is not None
    first = (await started.stdout.readline()).decode().split()[-1]
    opened = await asyncio.to_thread(fetch, first)
    second = (await started.stdout.readline()).decode().split()[-1]
    again = [(await asyncio.to_thread(fetch, address)).status for address in (first, second)]
    async with aiohttp.ClientSession() as session, session.get(f"http://{health}/metrics") as response:
        measured = await response.text()
    started.send_signal(signal.SIGINT)

    assert (opened.status, again) == (200, [401, 200])
    assert await started.wait() == 0
    assert "# TYPE watchword_findings gauge" in measured


def test_address_that_other_machines_reach_needs_a_login(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dashboard", "--serve", "0.0.0.0:0"]) == 2
    assert "give --login" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["dashboard", "--login"], id="dashboard"),
        pytest.param(
            ["registry-auth", "--service", "r", "--signing-key", "k", "--signing-certificate", "c"], id="registry-auth"
        ),
    ],
)
def test_plain_http_on_an_address_that_other_machines_reach_needs_a_flag(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--serve", "0.0.0.0:0"]) == 2
    assert "--insecure-http" in capsys.readouterr().err

    run([*command, "--serve", "0.0.0.0:0", "--insecure-http", "--kubeconfig", "/does/not/exist"])
    assert "warning: plain HTTP on 0.0.0.0" in capsys.readouterr().err
