"""A cluster becomes a hub, joins itself, uses its credentials and leaves: nothing remains."""

from __future__ import annotations

from tests.node.real_cluster import RealCluster

NAMESPACES = [f"open-cluster-management{suffix}" for suffix in ("", "-hub", "-agent", "-agent-addon")]
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
WHO_AM_I = """
import json, pathlib, ssl, urllib.request
token, authority = (pathlib.Path("/credential", name).read_text() for name in ("token", "ca.crt"))
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    "https://10.96.0.1/apis/authentication.k8s.io/v1/selfsubjectreviews",
    json.dumps(review).encode(),
    {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
)
answer = urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority))
print(json.load(answer)["status"]["userInfo"]["username"])
"""


def test_hub_and_cluster_from_first_to_last_command_leave_nothing(cluster: RealCluster) -> None:
    cluster.join(cluster.init())
    assert "edge-1" in cluster.watchword("status").stdout
    cluster.watchword("doctor")
    assert "Warning" not in cluster.run(
        "kubectl", "label", "--dry-run=server", "namespace", *NAMESPACES, RESTRICTED
    ).stderr  # the server warns of pods that violate the standard  # fmt: skip

    cluster.watchword("addon", "enable", "managed-serviceaccount", "--clusters", "edge-1")
    cluster.watchword("serviceaccount", "create", "robot", "-n", "edge-1", "--wait")
    said = cluster.run_python(WHO_AM_I, namespace="edge-1", secret="robot")
    assert said.strip() == "system:serviceaccount:open-cluster-management-agent-addon:robot"

    cluster.leave_and_clean()
