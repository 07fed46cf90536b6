"""The commands of pages that need a node work there as they are written, and leave nothing once the hub is removed."""

from __future__ import annotations

import os
import shutil

import pytest
from tests.docs.reader import Reader, environment
from tests.node.conftest import ROOT
from tests.node.real_cluster import RealCluster

from tools.documented_blocks import Page, read_pages
from tools.helm import find_helm
from tools.node_images import tag_image

PUBLISHED = "registry.example/watchword:0.1.0"  # the pages' name for the image that their reader pushed
PAGES = [page for page in read_pages(ROOT) if any(block.needs_node for block in page.blocks)]


@pytest.mark.skipif(find_helm() is None, reason="helm is not installed: run `make helm`")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.name)
def test_page_works_on_a_node(cluster: RealCluster, page: Page) -> None:
    tag_image(cluster.node.settings, cluster.image, PUBLISHED)
    shutil.copytree(ROOT / "deploy", cluster.folder / "deploy")
    reader = Reader(cluster.folder, terminal(cluster))
    reader.current = dict(reader.fresh)

    for block in page.blocks:
        if block.needs_node:
            reader.follow(block)
    reader.close()

    cluster.watchword("unjoin", "--cluster-name", "edge-1", check=False)  # where the page joined one
    cluster.watchword("clean", "--yes", "--delete-kinds", "--force")


def terminal(cluster: RealCluster) -> dict[str, str]:
    """Return the environment of a reader whose contexts `hub` and `edge-1` are this cluster."""
    kubeconfig = cluster.folder / "kubeconfig"
    shutil.copy(cluster.node.kubeconfig, kubeconfig)
    for name in ("hub", "edge-1"):
        context = ("set-context", name, "--cluster=kubernetes", "--user=kubernetes-admin")
        cluster.kubectl("config", *context, f"--kubeconfig={kubeconfig}")
    helm = find_helm()
    assert helm is not None
    path = f"{cluster.node.settings.binaries}:{helm.parent}:{os.environ['PATH']}"
    own = {"KUBECONFIG": str(kubeconfig), "WATCHWORD_IMAGE": PUBLISHED}
    return environment(cluster.folder, ROOT / "src", path) | own
