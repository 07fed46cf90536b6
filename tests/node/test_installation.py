"""A hub comes by Helm and goes without a trace while its cluster's agent is there; a bad image is named."""

from __future__ import annotations

import json

import pytest
from tests.node.conftest import ROOT
from tests.node.real_cluster import RealCluster

from tools.helm import find_helm

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
    arguments = cluster.init()
    cluster.kubectl("taint", "node", "node", f"{TAINT}-")  # the agent of `join` does not tolerate it
    cluster.join(arguments)
    cluster.watchword("doctor")
    cluster.kubectl("taint", "node", "node", TAINT)
    cluster.helm("uninstall", "watchword", "--wait", "--timeout=5m")
    cluster.watchword("unjoin", "--cluster-name", "edge-1", check=False)  # what the release left of the agent
    cluster.watchword("clean", "--yes", "--delete-kinds", "--force")

    cluster.kubectl("taint", "node", "node", f"{TAINT}-")


def test_image_that_cannot_be_pulled_is_named_with_its_registry(cluster: RealCluster) -> None:
    asked = cluster.with_image("").watchword("init", check=False)
    unpulled = cluster.with_image("registry.invalid/watchword:1").watchword(
        "init", "--wait", "--timeout=25s", check=False
    )

    assert (asked.returncode, "make image" in asked.stderr) == (4, True)
    assert unpulled.returncode != 0
    assert "cannot pull registry.invalid/watchword:1 from registry.invalid: " in unpulled.stderr
    cluster.watchword("clean", "--yes", "--delete-kinds")
