"""The images of a node: the pause container, compiled here, and what `make image` built."""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tools.envtest import run
from tools.image_layout import ImageConfiguration, write_layout
from tools.node_processes import PAUSE, NodeSettings

PAUSE_PROGRAM = """package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
"""


def provide_pause_image(go: str, layout: Path) -> None:
    """Compile the program that keeps the namespaces of a pod, as an image; instant when it is there."""
    if (layout / "index.json").is_file():
        return
    with tempfile.TemporaryDirectory() as work:
        rootfs = Path(work, "rootfs")
        rootfs.mkdir()
        source = Path(work, "pause.go")
        source.write_text(PAUSE_PROGRAM)
        run(["env", "CGO_ENABLED=0", go, "build", "-trimpath", "-o", str(rootfs / "pause"), str(source)], work)
        started = ImageConfiguration(("/pause",), (), "65535:65535", (), created=0, labels={})
        write_layout(rootfs, layout, PAUSE.rpartition(":")[2], started)


def import_image(node: NodeSettings, layout: Path, name: str) -> None:
    """Give an OCI layout to the containerd of a node under this name."""
    repository, tag = name.rpartition(":")[0], read_tag(layout)
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(layout, ".")
        archive.seek(0)
        importing = node.ctr("images", "import", f"--base-name={repository}", "-")
        subprocess.run(importing, stdin=archive, stdout=subprocess.DEVNULL, check=True)
    if f"{repository}:{tag}" != name:
        tag_image(node, f"{repository}:{tag}", name)


def tag_image(node: NodeSettings, present: str, name: str) -> None:
    """Give an image that the node has another name."""
    subprocess.run(node.ctr("images", "tag", "--force", present, name), stdout=subprocess.DEVNULL, check=True)


def read_tag(layout: Path) -> str:
    """Return the tag that an OCI layout names its image by."""
    (manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
    return str(manifest["annotations"]["org.opencontainers.image.ref.name"])
