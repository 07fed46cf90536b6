"""Another image comes and goes: the hub, the operator and the agent follow, and the cluster stays a member."""

from __future__ import annotations

from tests.node.real_cluster import RealCluster

from tools.node import IMAGE
from tools.node_images import tag_image

DEPLOYMENTS = (
    ("watchword-operator", "open-cluster-management"),
    ("cluster-manager-controller", "open-cluster-management-hub"),
    ("klusterlet-agent", "open-cluster-management-agent"),
)


def images(cluster: RealCluster) -> set[str]:
    found = [cluster.get("deployment", name, "-n", namespace) for name, namespace in DEPLOYMENTS]
    return {row["spec"]["template"]["spec"]["containers"][0]["image"] for row in found}


def test_upgrade_and_downgrade_keep_the_cluster_a_member(cluster: RealCluster) -> None:
    other = f"{IMAGE}:next"
    tag_image(cluster.node.settings, cluster.image, other)
    arguments = cluster.init()
    cluster.join(arguments)
    rights = cluster.get("managedcluster", "edge-1")["metadata"]["uid"]

    for image in (other, cluster.image):
        cluster.with_image(image).init()
        cluster.with_image(image).watchword(*arguments, "edge-1", "--wait")
        cluster.await_rollouts()
        assert images(cluster) == {image}
        cluster.await_renewal("lease", "managed-cluster-lease", "-n", "edge-1")
        found = cluster.get("managedcluster", "edge-1")
        states = {row["type"]: row["status"] for row in found["status"]["conditions"]}
        assert (found["metadata"]["uid"], states["ManagedClusterConditionAvailable"]) == (rights, "True")

    cluster.leave_and_clean()
