"""The wheel of this source, and an environment that holds nothing but it and what it declares."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tools.locked_wheels import requirement_names

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from nothing but the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    source = build("sdist", ROOT, folder)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    return build("wheel", folder / source.name.removesuffix(".tar.gz"), folder)


def build(target: str, project: Path, folder: Path) -> Path:
    """Build one archive of a project without the network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=project, env=clean_environment(), check=True, capture_output=True)
    (made,) = folder.glob("*.tar.gz" if target == "sdist" else "*.whl")
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
