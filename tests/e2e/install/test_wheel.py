"""Watchword installs without its repository: the archives are complete, and the installed command works."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.e2e.install.conftest import ROOT, clean_environment

pytestmark = [pytest.mark.timeout(300), pytest.mark.real_time]


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    tracked = subprocess.run(
        ["git", "ls-files", "watchword"], cwd=source, check=False, capture_output=True, text=True
    ).stdout.split()
    expected = tracked or [str(path.relative_to(source)) for path in source.rglob("*.py")]

    assert set(expected) <= set(ZipFile(wheel).namelist())


def test_wheel_offers_the_extras_that_the_documentation_names(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        extras = set(re.findall(r"^Provides-Extra: (\S+)$", archive.read(name).decode(), re.MULTILINE))

    assert {"aws", "grpc"} <= extras


@pytest.mark.slow
def test_installed_command_brings_up_a_fleet(installed: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [installed / "python", "-c", "import watchword; print(watchword.__file__)"],
        env=clean_environment(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    up = subprocess.run(
        [installed / "watchword", "up", "--exit", "--ephemeral", "--clusters=1", "--timeout=4m"],
        env=clean_environment(),
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )

    assert Path(where.stdout.strip()).is_relative_to(installed.parent)
    assert up.returncode == 0, up.stderr
