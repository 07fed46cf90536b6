"""A fleet that is saved while it runs, lost, and restored."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.up.conftest import PATIENCE, WATCHWORD, UpProcess

from bench.reliability.upgrade import read_identity
from watchword.runtime.event_loop import run

pytestmark = [pytest.mark.timeout(300)]


def watchword(*argv: str | Path) -> None:
    subprocess.run([*WATCHWORD, *map(str, argv)], check=True, capture_output=True, timeout=PATIENCE)


@pytest.mark.slow
def test_agents_of_a_restored_fleet_connect_again_without_another_join(
    start_up: Callable[..., UpProcess], tmp_path: Path
) -> None:
    data, backup = tmp_path / "fleet", tmp_path / "backup"
    first = start_up("--clusters=1", f"--data-dir={data}")
    first.until("ready")
    before = run(read_identity(data / "kubeconfig"))
    watchword("backup", backup, "--data-dir", data)
    first.kill()
    shutil.rmtree(data)

    watchword("restore", backup, "--data-dir", data, "--undo-revocations")
    second = start_up("--clusters=1", f"--data-dir={data}")
    second.until("ready")

    assert run(read_identity(data / "kubeconfig")) == before
