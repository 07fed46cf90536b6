"""Runs command lines inside of the image with runc: the root file system is read-only, the user is the image's."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.install.conftest import ROOT

from watchword.apiserver.node.containers import INHERITED
from watchword.apiserver.node.processes import LIFELINE, PROGRAM

RUNC = "runc"
LIFELINE_NUMBER = 3  # the first descriptor that runc hands on


@dataclass(frozen=True)
class ImageLayout:
    """An OCI layout of one image with one layer."""

    folder: Path

    @property
    def digest(self) -> str:
        index = json.loads((self.folder / "index.json").read_text())
        return str(index["manifests"][0]["digest"])

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.blob(self.digest).read_text())
        return found

    @property
    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.blob(self.manifest["config"]["digest"]).read_text())["config"]
        return found

    def blob(self, digest: str) -> Path:
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def open_layer(self) -> tarfile.TarFile:
        return tarfile.open(self.blob(self.manifest["layers"][0]["digest"]))


@dataclass(frozen=True)
class ImageRunner:
    """The image, unpacked; every container has a bundle in the same folder."""

    layout: ImageLayout
    folder: Path

    @classmethod
    def unpack(cls, layout: ImageLayout, folder: Path) -> ImageRunner:
        with layout.open_layer() as layer:
            layer.extractall(folder / "rootfs", filter="tar")
        (folder / "bundles").mkdir()
        return cls(layout, folder)

    @property
    def user(self) -> tuple[int, int]:
        user, group = self.layout.config["User"].split(":")
        return int(user), int(group)

    def executable(self) -> Path:
        """Return a program that the process node runs in the place of Python."""
        program = self.folder / "launch"
        known = f"{str(self.layout.folder)!r}, {str(self.folder)!r}"
        program.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path[:0] = [{str(ROOT / 'src')!r}, {str(ROOT)!r}]\n"
            f"from tests.e2e.install.image_container import launch\nlaunch({known}, sys.argv[1:])\n"
        )
        program.chmod(0o755)
        return program

    def run(self, volume: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one command line to its end, with a folder as the volume at /tmp."""
        os.chown(volume, *self.user)
        bundle = self.bundle(arguments, environment, [bind(volume, "/tmp", writable=True)])
        return subprocess.run(self.command(bundle), capture_output=True, text=True, timeout=120, check=False)

    def command(self, bundle: Path, *flags: str) -> list[str]:
        return [RUNC, "--root", str(self.folder / "state"), "run", *flags, "--bundle", str(bundle), bundle.name]

    def bundle(self, arguments: Sequence[str], environment: Mapping[str, str], mounts: Sequence[object]) -> Path:
        """Write what runc is told about one container."""
        own = dict(row.split("=", 1) for row in self.layout.config["Env"])
        user, group = self.user
        process = {
            "user": {"uid": user, "gid": group},
            "args": [*self.layout.config["Entrypoint"], *arguments],
            "env": [f"{name}={text}" for name, text in {**own, **environment}.items()],
            "cwd": "/",
            "noNewPrivileges": True,
        }
        system = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        ]
        spec = {
            "ociVersion": "1.0.2",
            "process": process,
            "root": {"path": str(self.folder / "rootfs"), "readonly": True},
            "mounts": [*system, *mounts],
            "linux": {"namespaces": [{"type": name} for name in ("mount", "pid", "ipc")]},
        }
        bundle = self.folder / "bundles" / f"{arguments[0]}-{secrets.token_hex(4)}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(spec))
        return bundle

    def verbs(self) -> set[str]:
        """Return the commands of all containers that were started."""
        return {bundle.name.rpartition("-")[0] for bundle in (self.folder / "bundles").iterdir()}


def bind(source: Path, target: str, *, writable: bool = False) -> dict[str, object]:
    options = ["rbind", "rw" if writable else "ro", "nosuid", "nodev"]
    return {"destination": target, "type": "bind", "source": str(source), "options": options}


def launch(layout: str, folder: str, argv: Sequence[str]) -> None:
    """Become a container that sees the files of its pod where the node put them; its temporary folder is writable."""
    runner, pod = ImageRunner(ImageLayout(Path(layout)), Path(folder)), Path.cwd()
    for path in (pod, *pod.rglob("*")):
        os.chown(path, *runner.user)
    os.dup2(int(os.environ[LIFELINE]), LIFELINE_NUMBER)
    environment = {name: text for name, text in os.environ.items() if name not in INHERITED}
    environment[LIFELINE] = str(LIFELINE_NUMBER)
    temporary = Path(environment["TMPDIR"])
    mounts = [bind(pod, str(pod)), bind(temporary, str(temporary), writable=True)]
    bundle = runner.bundle(argv[len(PROGRAM) :], environment, mounts)
    command = runner.command(bundle, "--preserve-fds", "1")
    os.execvp(command[0], command)
