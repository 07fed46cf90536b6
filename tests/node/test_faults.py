"""A hub of two replicas and its cluster survive the loss of every process, and a drained node."""

from __future__ import annotations

import os
import signal

from tests.node.real_cluster import RealCluster

AVAILABLE = ("condition=ManagedClusterConditionAvailable", "managedcluster/edge-1")
LEASE = ("lease", "managed-cluster-lease", "-n", "edge-1")


def test_every_process_that_is_killed_comes_back_and_the_cluster_stays_a_member(cluster: RealCluster) -> None:
    arguments = cluster.init()
    cluster.kubectl("annotate", "clustermanager", "cluster-manager", "watchword.dev/replicas=2")
    cluster.join(arguments)
    cluster.await_rollouts()

    leader = cluster.get("lease", "watchword-hub-lock", "-n", "open-cluster-management-hub")["spec"]["holderIdentity"]
    pod = leader.split("_")[0]
    cluster.kubectl("delete", "pod", "-n", "open-cluster-management-hub", pod, "--grace-period=0", "--force")
    cluster.wait_for_other("watchword-hub-lock", "open-cluster-management-hub", leader)
    for word in ("operator", "agent", "hub"):
        for pid in cluster.node.containers(f"/usr/local/bin/watchword\0{word}"):
            os.kill(pid, signal.SIGKILL)
    for process in ("kubelet", "containerd", "kube-apiserver", "etcd"):
        cluster.node.kill(process)
        cluster.await_server()
    cluster.await_renewal(*LEASE)
    cluster.await_rollouts()
    cluster.wait(*AVAILABLE)
    cluster.watchword("doctor")

    cluster.leave_and_clean()


def test_drained_node_takes_everything_up_again(cluster: RealCluster) -> None:
    cluster.join(cluster.init())

    cluster.kubectl("drain", "node", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s")
    cluster.kubectl("uncordon", "node")
    cluster.await_rollouts()
    cluster.await_renewal(*LEASE)
    cluster.wait(*AVAILABLE)

    cluster.leave_and_clean()
