"""The image that `make image` builds: no root, pushed and pulled unchanged, and it runs what the manifests say."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.install.image_container import RUNC, ImageLayout, ImageRunner
from tests.helpers.node_cluster import a_cluster_with_node
from tests.pullsecrets.registry import wait_until_listening

from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE
from watchword.api.resources import DEPLOYMENTS, SECRETS, SERVICE_ACCOUNTS
from watchword.apiserver.node.processes import ProcessRunner
from watchword.cli.main import run as run_command
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.local.workloads import COMMANDS
from watchword.operator.bundles import DASHBOARD, DashboardBundleOptions, dashboard_bundle
from watchword.operator.pull_secret_manifests import (
    PULL_SECRETS,
    REGISTRY_AUTH,
    PullSecretBundleOptions,
    RegistryAuthBundleOptions,
    pull_secret_bundle,
    registry_auth_bundle,
    signing_secret,
)
from watchword.pki.authority import Authority
from watchword.testing.process import ChildProcess, free_port

LAYOUT = ImageLayout(Path(os.environ.get("WATCHWORD_IMAGE_LAYOUT", "")))
USER = 65532
DEPLOYED = {"operator", "hub", "grpc-server", "agent", "pull-secrets", "registry-auth", "dashboard"}
AWS_KEYS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "example"}
pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(600),
    pytest.mark.skipif("WATCHWORD_IMAGE_LAYOUT" not in os.environ, reason="no image was built: run `make image-check`"),
]
NEW_NAMESPACES = ("unshare", "--mount", "--pid", "--ipc", "--fork", "true")


def can_run_containers() -> bool:
    """Whether runc is there, and this process may make the namespaces of a container."""
    if os.geteuid() != 0 or shutil.which(RUNC) is None:
        return False
    return subprocess.run(NEW_NAMESPACES, capture_output=True, check=False).returncode == 0


needs_runc = pytest.mark.skipif(not can_run_containers(), reason="runc is not installed, or may not make namespaces")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> ImageRunner:
    return ImageRunner.unpack(LAYOUT, tmp_path_factory.mktemp("image"))


def test_image_names_a_user_that_is_not_root_and_lists_its_packages() -> None:
    with LAYOUT.open_layer() as layer:
        listed = layer.extractfile("usr/share/sbom/watchword.cdx.json")
        assert listed is not None
        names = {row["purl"].partition("@")[0] for row in json.load(listed)["components"]}

    assert LAYOUT.config["User"] == f"{USER}:{USER}"
    assert {"pkg:pypi/watchword", "pkg:pypi/cryptography", "pkg:pypi/boto3", "pkg:deb/debian/libc6"} <= names


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
        await run(*copy, "--dest-tls-verify=false", f"oci:{LAYOUT.folder}", image)
        await run(*copy, "--src-tls-verify=false", image, f"oci:{tmp_path / 'pulled'}:1")
    finally:
        await asyncio.to_thread(registry.stop)

    assert ImageLayout(tmp_path / "pulled").digest == LAYOUT.digest


@needs_runc
def test_only_the_volume_of_a_container_is_writable(runner: ImageRunner, tmp_path: Path) -> None:
    for place in ("/data", "/usr/data", "/var/data"):
        refused = runner.run(tmp_path, "apiserver", "--data-dir", place)
        assert (refused.returncode, "Read-only file system" in refused.stderr) == (1, True), refused.stderr

    made = runner.run(tmp_path, "up", "--exit", "--clusters", "1", "--data-dir", "/tmp/fleet")

    assert made.returncode == 0, made.stderr
    assert {path.stat().st_uid for path in (tmp_path / "fleet").rglob("*")} == {USER}


@needs_runc
def test_image_signs_tokens_for_hubs_on_eks(runner: ImageRunner, tmp_path: Path) -> None:
    command = ("aws", "get-token", "--region", "eu-central-1", "--cluster-name", "hub")

    done = runner.run(tmp_path, *command, **AWS_KEYS)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"]["token"].startswith("k8s-aws-v1.")


@needs_runc
async def test_command_lines_of_the_deployments_run_inside_the_image(runner: ImageRunner, tmp_path: Path) -> None:
    processes = ProcessRunner(str(runner.executable()))
    commands = (*COMMANDS, "registry-auth", "dashboard")
    async with a_cluster_with_node(tmp_path / "cluster", runner=processes, commands=commands) as kubeconfig:
        client = connect(kubeconfig, "")
        try:
            await deploy_everything(client, kubeconfig, tmp_path)
            await every_deployment_is_available(client)
        finally:
            await client.close()

    assert runner.verbs() >= DEPLOYED


async def deploy_everything(client: Client, kubeconfig: Path, folder: Path) -> None:
    """Make the cluster a hub that is its own member, with pull secrets, a token service and the dashboard."""
    join = folder / "join"
    drivers = ("--registration-auth", "csr,grpc", "--grpc-server-hosts", "127.0.0.1")
    await watchword(kubeconfig, "init", "--wait", *drivers, "--output-join-command-file", str(join))
    joining = asyncio.create_task(watchword(kubeconfig, "join", *join.read_text().split()[2:-1], "self", "--wait"))
    await watchword(kubeconfig, "accept", "--clusters", "self", "--wait")
    await joining
    signer = Authority.make("registry-auth", now=datetime.now(UTC))
    auth = RegistryAuthBundleOptions(service="registry.example", audience="registry.example")
    await apply(client, pull_secret_bundle(PullSecretBundleOptions(registries=("registry.example",))))
    key = signing_secret(signer.key.pem.reveal(), signer.certificate.pem)
    await apply(client, [*registry_auth_bundle(auth), (SECRETS, key)])
    await apply(client, dashboard_bundle(DashboardBundleOptions()))


async def every_deployment_is_available(client: Client) -> None:
    waiter = ObjectWaiter(client, timedelta(minutes=3))
    manager = ObjectKey(HUB_NAMESPACE, "cluster-manager-controller")
    agent = ObjectKey(AGENT_NAMESPACE, "klusterlet-agent")
    for key in (manager, agent, PULL_SECRETS, REGISTRY_AUTH, DASHBOARD):
        await waiter.until(DEPLOYMENTS, key, missing_pods, advice="read the logs of the pods")
    account = ObjectKey("default", "default")
    await waiter.until(SERVICE_ACCOUNTS, account, missing_pull_secret, advice="read the logs of pull-secrets")


async def watchword(kubeconfig: Path, *argv: str) -> None:
    assert await asyncio.to_thread(run_command, [*argv, "--kubeconfig", str(kubeconfig)]) == 0


async def run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0


async def apply(client: Client, rows: list[Manifest]) -> None:
    for resource, obj in rows:
        await client.apply(resource, obj, manager="test", force=True)


def missing_pods(found: Object | None) -> str:
    return "" if ((found or {}).get("status") or {}).get("availableReplicas") else "no pod is available"


def missing_pull_secret(found: Object | None) -> str:
    return "" if (found or {}).get("imagePullSecrets") else "the account has no pull secret"
