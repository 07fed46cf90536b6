"""The image that `make image` builds: no root, pushed and pulled unchanged, and it runs what the manifests say."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.pullsecrets.registry import wait_until_listening

from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.apiserver.node.processes import ProcessRunner
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.operator.crds import install_crds
from watchword.operator.installation import read_installation
from watchword.testing.process import ChildProcess, free_port

LAYOUT = os.environ.get("WATCHWORD_IMAGE_LAYOUT", "")
USER = 65532
ENTER = f"""#!{sys.executable}
# Runs a container's command line inside of the image, as the image's user: argv is `-P -s -m watchword ARGUMENTS`.
import os, shutil, sys, tempfile
root, pod = ROOT, os.getcwd()
place = tempfile.mkdtemp(dir=root + "/pods")
shutil.copytree(pod, place, dirs_exist_ok=True)
for folder, _, files in os.walk(place):
    for name in (folder, *(os.path.join(folder, file) for file in files)):
        os.chown(name, {USER}, {USER})
inside = place.removeprefix(root)
environment = {{name: text.replace(pod, inside) for name, text in os.environ.items()}}
os.chroot(root)
os.chdir("/")
os.setgroups([])
os.setgid({USER})
os.setuid({USER})
os.execve("/usr/local/bin/watchword", ["watchword", *(text.replace(pod, inside) for text in sys.argv[5:])], environment)
"""
pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not LAYOUT, reason="no image was built: run `make image-check`"),
]


def blob(digest: str) -> Path:
    return Path(LAYOUT) / "blobs" / "sha256" / digest.removeprefix("sha256:")


def manifest() -> dict[str, Any]:
    index = json.loads((Path(LAYOUT) / "index.json").read_text())
    found: dict[str, Any] = json.loads(blob(index["manifests"][0]["digest"]).read_text())
    return found


def test_image_names_a_user_that_is_not_root_and_lists_its_packages() -> None:
    config = json.loads(blob(manifest()["config"]["digest"]).read_text())
    with tarfile.open(blob(manifest()["layers"][0]["digest"])) as layer:
        listed = layer.extractfile("usr/share/sbom/watchword.cdx.json")
        assert listed is not None
        names = {row["purl"].partition("@")[0] for row in json.load(listed)["components"]}

    assert config["config"]["User"] == f"{USER}:{USER}"
    assert {"pkg:pypi/watchword", "pkg:pypi/cryptography", "pkg:deb/debian/libc6"} <= names


@pytest.mark.skipif(
    not (shutil.which("skopeo") and shutil.which("docker-registry")), reason="skopeo or docker-registry is missing"
)
async def test_registry_returns_the_image_that_was_pushed(tmp_path: Path) -> None:
    port = free_port()
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (tmp_path / "registry.yaml").write_text(json.dumps(config))
    registry = ChildProcess(["docker-registry", "serve", str(tmp_path / "registry.yaml")], tmp_path / "registry.log")
    try:
        await wait_until_listening(port, registry)
        image = f"docker://127.0.0.1:{port}/watchword/watchword:1"
        copy = ["skopeo", "copy", "--quiet", "--preserve-digests"]
        await run(*copy, "--dest-tls-verify=false", f"oci:{LAYOUT}", image)
        await run(*copy, "--src-tls-verify=false", image, f"oci:{tmp_path / 'pulled'}:1")
    finally:
        await asyncio.to_thread(registry.stop)

    pulled = json.loads((tmp_path / "pulled" / "index.json").read_text())["manifests"][0]["digest"]
    assert pulled == json.loads((Path(LAYOUT) / "index.json").read_text())["manifests"][0]["digest"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root of a process")
async def test_command_lines_of_the_deployments_run_inside_the_image(tmp_path: Path) -> None:
    runner = ProcessRunner(str(enter_image(tmp_path)))
    settings = InstanceSettings(data_dir=tmp_path / "plane", port=0, node=True, runner=runner)
    instance = Instance(settings, lambda: datetime.now(UTC))
    await instance.start()
    client = connect(instance.kubeconfig, "")
    try:
        await deploy_hub(client)
        controllers = ObjectKey(HUB_NAMESPACE, "cluster-manager-controller")
        found = await ObjectWaiter(client, timedelta(minutes=3)).until(
            DEPLOYMENTS, controllers, missing_pods, advice=f"read the logs in {tmp_path}"
        )
    finally:
        await client.close()
        await instance.stop()

    assert found["status"]["availableReplicas"] == 1
    assert sorted(path.name for path in (tmp_path / "rootfs" / "pods").iterdir()) != []


async def run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0


def enter_image(folder: Path) -> Path:
    """Unpack the image; return the program that runs a command line in it."""
    rootfs = folder / "rootfs"
    with tarfile.open(blob(manifest()["layers"][0]["digest"])) as layer:
        layer.extractall(rootfs, filter="tar")
    (rootfs / "pods").mkdir(mode=0o755)
    program = folder / "enter"
    program.write_text(ENTER.replace("ROOT", repr(str(rootfs))))
    program.chmod(0o755)
    return program


async def deploy_hub(client: Client) -> None:
    await install_crds(client)
    for resource, obj in read_installation({}).hub_rows():
        if resource is not CUSTOM_RESOURCE_DEFINITIONS:
            await client.apply(resource, obj, manager="test", force=True)


def missing_pods(found: Object | None) -> str:
    return "" if ((found or {}).get("status") or {}).get("availableReplicas") else "the hub's controllers do not run"
