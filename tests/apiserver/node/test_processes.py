"""Containers are real processes: they end on request, and never outlive the server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from watchword.api.meta import ObjectKey
from watchword.apiserver.node.model import HttpProbe, Launch
from watchword.apiserver.node.processes import ProcessRunner

pytestmark = pytest.mark.real_time

STUBBORN = """#!{python}
import os, signal, sys, time
sys.path[:0] = {path!r}
from watchword.__main__ import exit_with_parent
signal.signal(signal.SIGTERM, signal.SIG_IGN)
exit_with_parent(os.environ)
print("ready", flush=True)
time.sleep(60)
"""

SERVER = """
import asyncio, sys
from pathlib import Path
from watchword.api.meta import ObjectKey
from watchword.apiserver.node.model import Launch
from watchword.apiserver.node.processes import ProcessRunner

async def main(folder):
    launch = Launch(ObjectKey("a", "b"), "main", (), {}, folder / "root", folder / "main.log")
    running = await ProcessRunner(str(folder / "stubborn")).start(launch)
    print(running.process.pid, flush=True)
    await running.wait()

asyncio.run(main(Path(sys.argv[1])))
"""


def a_launch(folder: Path, *arguments: str) -> Launch:
    environment = {"PATH": os.environ["PATH"]}
    return Launch(ObjectKey("apps", "one"), "main", arguments, environment, folder / "root", folder / "main.log")


@pytest.fixture
def stubborn(tmp_path: Path) -> Path:
    """A program that ignores SIGTERM and runs for a minute."""
    program = tmp_path / "stubborn"
    program.write_text(STUBBORN.format(python=sys.executable, path=sys.path))
    program.chmod(0o700)
    return program


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("watchword", id="in the working directory"),
        pytest.param(f".local/lib/python3.{sys.version_info.minor}/site-packages/watchword", id="in the home folder"),
    ],
)
async def test_process_imports_nothing_that_a_pod_mounts(tmp_path: Path, place: str) -> None:
    package = tmp_path / "root" / place
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit(77)")
    (package.parent / "usercustomize.py").write_text("raise SystemExit(77)")
    launch = a_launch(tmp_path, "--version")
    environment = {**launch.environment, "HOME": str(tmp_path / "root"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}

    running = await ProcessRunner().start(replace(launch, environment=environment))

    assert await running.wait() == 0


async def test_a_process_runs_our_own_command_line(tmp_path: Path) -> None:
    running = await ProcessRunner().start(a_launch(tmp_path, "--version"))

    assert await running.wait() == 0
    assert (tmp_path / "main.log").read_text().startswith("watchword ")


async def test_exit_code_reports_the_signal(tmp_path: Path, stubborn: Path) -> None:
    running = await ProcessRunner(str(stubborn)).start(a_launch(tmp_path))

    running.kill()

    assert await running.wait() == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("host", "port"),
    [
        pytest.param("127.0.0.1", 1, id="nothing listens"),
        pytest.param("x" * 64, 80, id="name that no host can have"),
        pytest.param("127.0.0.1", 99999, id="port that does not exist"),
    ],
)
async def test_probe_without_a_response_fails(tmp_path: Path, stubborn: Path, host: str, port: int) -> None:
    running = await ProcessRunner(str(stubborn)).start(a_launch(tmp_path))

    assert not await running.probe(HttpProbe(host, port, "/healthz", 1.0))
    running.kill()
    await running.wait()


async def test_no_process_outlives_a_server_that_was_killed(tmp_path: Path, stubborn: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    child = os.pidfd_open(int(await server.stdout.readline()))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(child, ended.set)

    server.kill()
    await server.wait()

    async with asyncio.timeout(60):
        await ended.wait()  # a pidfd becomes readable when its process has ended
    asyncio.get_running_loop().remove_reader(child)
    os.close(child)
