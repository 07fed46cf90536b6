"""The page of differences names the subresources of pods that are missing, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.helpers.node_cluster import a_cluster_with_node
from tests.node_clusters import connected

from watchword.api.meta import ObjectKey
from watchword.api.resources import PODS

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"


@pytest.mark.real_time
async def test_subresources_of_pods_are_served_as_the_page_lists_them(tmp_path: Path) -> None:
    text = " ".join(PAGE.read_text().split())
    listed = re.search(r"Of a pod's subresources, (.*?) are not served\. `(\w+)` is where a process node runs", text)
    assert listed is not None
    key = ObjectKey("default", "other")
    pod = PODS.manifest(key, spec={"containers": [{"name": "main", "image": "registry.example/other:1"}]})

    async with a_cluster_with_node(tmp_path) as kubeconfig, connected(kubeconfig) as client:
        await client.create(PODS, pod)
        paths = [PODS.path(key, subresource=name) for name in (*re.findall(r"`(\w+)`", listed[1]), listed[2])]
        answers = [(await client.request("GET", path)).status for path in paths]

    assert answers == [404, 404, 404, 404, 200]
