"""The wheel of this source, and an environment that holds nothing but it and what it declares."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tools.locked_wheels import requirement_names

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from nothing but the sdist, as `make dist` does."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def build(project: Path, folder: Path, *options: str) -> Path:
    """Build a project without the network; return the wheel."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--outdir={folder}", *options, str(project)]
    subprocess.run(command, env=clean_environment(), check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty environment; return its folder of commands."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], env=clean_environment(), check=True)
    dependencies = folder / "dependencies"
    link_dependencies(dependencies)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    return folder / "bin"


def link_dependencies(folder: Path) -> None:
    """Link what the package declares, and nothing else of the test environment, into a folder."""
    folder.mkdir()
    for found in map(distribution, requirement_names()):
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            link = folder / top
            if not link.exists():  # namespaces are shared
                link.symlink_to(str(found.locate_file(top)))


def clean_environment() -> dict[str, str]:
    """Return the environment of a process that must not see the source."""
    return {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
