"""Helm installs, upgrades and removes every part of the chart, and nothing is left of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.install.test_chart import CHART, HELM, needs_helm, needs_kubectl, run
from tests.helpers.node_cluster import a_cluster_with_node

from watchword.api.yaml import load
from watchword.testing.plane import Plane

pytestmark = [needs_helm, needs_kubectl, pytest.mark.real_time, pytest.mark.timeout(400)]

RELEASE = "open-cluster-management"
KINDS = "clustermanagers,klusterlets,deployments,jobs,services,clusterroles,clusterrolebindings,namespaces"
PARTS = {
    "hub": ("hub.enabled=true",),
    "agent": ("agent.enabled=true", "agent.clusterName=edge"),
    "pull-secrets": ("pullSecrets.enabled=true", "pullSecrets.registries={registry.example}"),
}


@dataclass(frozen=True)
class HelmCluster:
    """A cluster on which Helm and kubectl work as its administrator."""

    kubeconfig: Path
    folder: Path

    def kubectl(self, *arguments: object) -> str:
        return run("kubectl", f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.folder / 'cache'}", *arguments)

    def helm(self, verb: str, *arguments: object) -> str:
        return run(HELM, f"--kubeconfig={self.kubeconfig}", f"--namespace={RELEASE}", verb, "watchword", *arguments)

    def install(self, verb: str, *values: str) -> str:
        flags = ("--create-namespace",) if verb == "install" else ()
        return self.helm(verb, CHART, *flags, *(word for value in values for word in ("--set", value)))

    def left(self) -> list[str]:
        """Return the names of what the chart or its operator made, of the kinds that are not in a namespace of it."""
        names = self.kubectl("get", KINDS, "-A", "-o", "name", "--ignore-not-found").split()
        marks = ("watchword", "cluster-manager", "klusterlet", "open-cluster-management-")
        # Helm never deletes the kinds, and not the namespace that it made for the release.
        return [name for name in names if any(mark in name.partition("/")[2] for mark in marks)]


def install_and_remove_hub(cluster: HelmCluster) -> None:
    controllers = ("-n", "open-cluster-management-hub", "deployment/cluster-manager-controller", "--timeout=120s")
    cluster.install("install", *PARTS["hub"])
    cluster.kubectl("wait", "--for=create", *controllers)
    cluster.kubectl("wait", "--for=condition=Available", *controllers)

    cluster.install("upgrade", *PARTS["hub"], "hub.replicas=2")
    cluster.kubectl("wait", "--for=jsonpath={.spec.replicas}=2", *controllers)

    cluster.helm("uninstall", "--wait", "--timeout=3m")


def install_and_remove_agent(cluster: HelmCluster) -> None:
    agent = ("-n", "open-cluster-management-agent", "deployment/klusterlet-agent", "--timeout=120s")
    cluster.install("install", *PARTS["agent"])
    cluster.kubectl("wait", "--for=create", *agent)

    cluster.install("upgrade", *PARTS["agent"], "agent.resources.requests.memory=96Mi")
    requested = "{.spec.template.spec.containers[0].resources.requests.memory}"
    cluster.kubectl("wait", f"--for=jsonpath={requested}=96Mi", *agent)

    cluster.helm("uninstall", "--wait", "--timeout=3m")


def install_and_remove_pull_secrets(cluster: HelmCluster) -> None:
    controllers = ("-n", "watchword-pull-secrets", "deployment/watchword-pull-secrets", "--timeout=120s")
    listed = ("--for=jsonpath={.imagePullSecrets[0].name}", "serviceaccount/builder", "--timeout=120s")
    cluster.install("install", *PARTS["pull-secrets"])
    cluster.kubectl("wait", "--for=condition=Available", *controllers)
    cluster.kubectl("create", "serviceaccount", "builder")
    cluster.kubectl("wait", *listed)

    cluster.install("upgrade", *PARTS["pull-secrets"], "pullSecrets.replicas=1")
    cluster.kubectl("wait", "--for=jsonpath={.spec.replicas}=1", *controllers)

    cluster.helm("uninstall", "--wait", "--timeout=3m")
    secrets = cluster.kubectl("get", "secrets", "-A", "--field-selector=type=kubernetes.io/dockercfg", "-o", "name")
    account = load(cluster.kubectl("get", "serviceaccount", "builder", "-o", "json"))
    assert (secrets, account.get("imagePullSecrets", [])) == ("", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "install_and_remove",
    [
        pytest.param(install_and_remove_hub, id="hub"),
        pytest.param(install_and_remove_agent, id="agent"),
        pytest.param(install_and_remove_pull_secrets, id="pull secrets"),
    ],
)
async def test_helm_installs_upgrades_and_removes(
    tmp_path: Path, install_and_remove: Callable[[HelmCluster], None]
) -> None:
    async with a_cluster_with_node(tmp_path / "cluster") as kubeconfig:
        cluster = HelmCluster(kubeconfig, tmp_path)
        await asyncio.to_thread(install_and_remove, cluster)

        assert await asyncio.to_thread(cluster.left) == []


@pytest.mark.parametrize("part", PARTS)
async def test_server_takes_what_helm_sends(private_plane: Plane, tmp_path: Path, part: str) -> None:
    def install_upgrade_and_remove() -> None:
        cluster.install("install", *PARTS[part])
        cluster.install("upgrade", *PARTS[part], "operator.replicas=2", "image.tag=next")
        cluster.helm("uninstall", "--no-hooks")  # no node runs pods here, so no Job would end

    cluster = HelmCluster(private_plane.kubeconfig, tmp_path)
    await asyncio.to_thread(install_upgrade_and_remove)

    assert [name for name in await asyncio.to_thread(cluster.left) if not name.startswith("namespace")] == []
