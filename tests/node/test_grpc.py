"""A cluster registers, renews and leaves through the gRPC server that the operator deployed, of two replicas."""

from __future__ import annotations

from tests.node.real_cluster import RealCluster

SERVER = ("cluster-manager-grpc-server", "-n", "open-cluster-management-hub")


def test_cluster_joins_rotates_and_leaves_through_the_deployed_server(cluster: RealCluster) -> None:
    cluster.init("--registration-auth", "csr,grpc")
    address = cluster.get("service", *SERVER)["spec"]["clusterIP"]
    arguments = cluster.init("--registration-auth", "csr,grpc", "--grpc-server-hosts", address)
    cluster.kubectl("annotate", "clustermanager", "cluster-manager", "watchword.dev/replicas=2")
    cluster.wait("jsonpath={.status.readyReplicas}=2", "deployment", *SERVER)
    authority = cluster.folder / "grpc-ca.crt"
    bundle = cluster.get("configmap", "ca-bundle-configmap", "-n", "open-cluster-management-hub")
    authority.write_text(bundle["data"]["ca-bundle.crt"])

    server = ("--registration-auth", "grpc", "--grpc-server", f"{address}:8090", "--grpc-ca-file", str(authority))
    cluster.join(arguments, *server)
    cluster.await_renewal("lease", "managed-cluster-lease", "-n", "edge-1")
    cluster.watchword("rotate", "cluster", "edge-1", "--yes")

    cluster.leave_and_clean()
