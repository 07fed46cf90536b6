"""A hub comes by Helm and by kustomize, at the first command, and goes without a trace in the order of the guide."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.node.conftest import ROOT
from tests.node.real_cluster import RealCluster

from tools.helm import find_helm
from watchword.api.yaml import dump

TAINT = "role=infra:NoSchedule"
PLACEMENT = {"nodePlacement": {"tolerations": [{"key": "role", "operator": "Exists"}]}}
AVAILABLE = ("clustermanager/cluster-manager", "condition=Available")


@pytest.mark.skipif(find_helm() is None, reason="helm is not installed: run `make helm`")
def test_helm_installs_and_removes_a_hub_with_its_cluster_on_a_tainted_node(cluster: RealCluster) -> None:
    registry, _, rest = cluster.image.partition("/")
    repository, _, tag = rest.partition(":")
    image = {"image": {"registry": registry, "repository": repository, "tag": tag}}
    values = cluster.folder / "values.json"
    values.write_text(
        json.dumps({**image, **PLACEMENT, "hub": {"enabled": True}, "podDisruptionBudget": {"enabled": True}})
    )
    cluster.kubectl("taint", "node", "node", TAINT)

    chart = str(ROOT / "deploy" / "chart")
    cluster.helm("install", "watchword", chart, "--create-namespace", "-f", str(values))
    cluster.wait(AVAILABLE[1], AVAILABLE[0])
    cluster.init()
    cluster.watchword("doctor")
    cluster.helm("uninstall", "watchword", "--wait", "--timeout=2m")
    cluster.watchword("clean", "--yes", "--delete-kinds")

    cluster.kubectl("taint", "node", "node", f"{TAINT}-")


def test_kustomize_installs_at_the_first_apply_and_a_cut_short_removal_is_finished(cluster: RealCluster) -> None:
    shutil.copytree(ROOT / "deploy" / "kustomize", cluster.folder / "kustomize")
    overlay = cluster.folder / "kustomize" / "overlay"
    overlay.mkdir()
    name, _, tag = cluster.image.rpartition(":")
    image = {"name": "ghcr.io/watchword/watchword", "newName": name, "newTag": tag}
    (overlay / "kustomization.yaml").write_text(dump({"resources": ["../hub"], "images": [image]}))

    cluster.kubectl("apply", "-k", str(cluster.folder / "kustomize" / "kinds"))
    cluster.wait("condition=Established", "crd/clustermanagers.operator.open-cluster-management.io")
    cluster.kubectl("apply", "-k", str(overlay))
    cluster.wait(AVAILABLE[1], AVAILABLE[0])
    cluster.with_image("").init()
    hub = cluster.get("deployment", "cluster-manager-controller", "-n", "open-cluster-management-hub")
    assert hub["spec"]["template"]["spec"]["containers"][0]["image"] == cluster.image

    cluster.kubectl("delete", "-k", str(overlay), "--wait=false")
    cluster.watchword("clean", "--yes", "--delete-kinds")


def test_image_that_cannot_be_pulled_is_named_with_its_registry(cluster: RealCluster) -> None:
    asked = cluster.with_image("").watchword("init", check=False)
    unpulled = cluster.with_image("registry.invalid/watchword:1").watchword(
        "init", "--wait", "--timeout=25s", check=False
    )

    assert (asked.returncode, "make image" in asked.stderr) == (4, True)
    assert unpulled.returncode != 0
    assert "cannot pull registry.invalid/watchword:1 from registry.invalid: " in unpulled.stderr
    cluster.watchword("clean", "--yes", "--delete-kinds")
