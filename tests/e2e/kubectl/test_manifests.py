"""What `watchword manifests` prints makes a hub by kubectl alone, at the first run."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.kubectl.conftest import KUBECTL
from tests.helpers.node_cluster import a_cluster_with_node

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(180),
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
]


def run(*command: str, given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
async def test_a_hub_made_by_kubectl_can_be_found_by_a_token(tmp_path: Path) -> None:
    async with a_cluster_with_node(tmp_path / "hub") as kubeconfig:
        await asyncio.to_thread(make_hub_and_discover_it, kubeconfig, tmp_path)


def make_hub_and_discover_it(kubeconfig: Path, folder: Path) -> None:
    def kubectl(*arguments: str, given: str = "") -> str:
        return run(str(KUBECTL), f"--kubeconfig={kubeconfig}", f"--cache-dir={folder / 'c'}", *arguments, given=given)

    def watchword(*arguments: str) -> str:
        return run(sys.executable, "-m", "watchword", *arguments)

    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = folder / "hub-ca.crt"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    kinds = watchword("manifests", "crds")
    kubectl("apply", "--server-side", "-f", "-", given=kinds)
    kubectl("wait", "--for=condition=Established", "-f", "-", given=kinds)
    hub = watchword("manifests", "hub", "--hub-apiserver", cluster["server"], "--ca-file", str(authority))
    kubectl("apply", "--server-side", "-f", "-", given=hub)
    watch = ("-n", "open-cluster-management-hub", "deployment/cluster-manager-controller", "--timeout=60s")
    kubectl("wait", "--for=create", *watch)
    kubectl("wait", "--for=condition=Available", *watch)

    token = folder / "token"
    token.write_text(watchword("token", "generate"))
    made = watchword("token", "create", f"@{token}", "--print-join-command", "--kubeconfig", str(kubeconfig)).split()
    made[made.index("--token") + 1] = f"@{token}"

    assert cluster["server"] in watchword("discover", *made[2:])
