"""A hub of two replicas and its clusters, in use: accounts, rotation, dashboard, lost processes, a lost etcd."""

from __future__ import annotations

import hashlib
import os
import signal

import pytest
from tests.node.conftest import Fleet
from tests.node.real_cluster import RealCluster

LEASES = [("lease", "managed-cluster-lease", "-n", name) for name in ("edge-1", "edge-2")]
HUB = "open-cluster-management-hub"
WHO_AM_I = """
import hashlib, json, pathlib, ssl, urllib.request
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

def ask():
    token, authority = (pathlib.Path("/credential", name).read_text() for name in ("token", "ca.crt"))
    request = urllib.request.Request(
        "SERVER/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json.dumps(review).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    answer = urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority))
    return json.load(answer)["status"]["userInfo"]["username"], hashlib.sha256(token.encode()).hexdigest()
"""
ONCE = "print(ask()[0])"
UNTIL_REFUSED = """
import contextlib, fcntl, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
changes = fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT
with contextlib.suppress(OSError):  # a kernel without directory notifications
    fcntl.fcntl(os.open("/credential", os.O_RDONLY), fcntl.F_NOTIFY, changes)
while True:
    print(ask()[1])
    signal.sigtimedwait({signal.SIGIO}, 0.2)  # at once when the kubelet exchanges the files; else below the rate limit
"""


def await_members(hub: RealCluster) -> None:
    """Return once both clusters renew their leases and are available."""
    for lease in LEASES:
        hub.await_renewal(*lease)
    hub.wait("condition=ManagedClusterConditionAvailable", "managedcluster", "edge-1", "edge-2")


def certificate(cluster: RealCluster) -> str:
    return cluster.secret_text("hub-kubeconfig-secret", "open-cluster-management-agent", "tls.crt")


@pytest.fixture(scope="module")
def account(fleet: Fleet) -> str:
    """The Secret with the token of an account on edge-2."""
    fleet.hub.watchword("addon", "enable", "managed-serviceaccount", "--clusters", "edge-1,edge-2", "--wait")
    fleet.hub.watchword("serviceaccount", "create", "robot", "-n", "edge-2", "--wait")
    return "robot"


@pytest.mark.usefixtures("account")
def test_addon_has_a_token_or_a_certificate_of_its_own(fleet: Fleet) -> None:
    secret = ("secret", "managed-serviceaccount-hub-kubeconfig", "-n", "open-cluster-management-agent-addon")

    held = [cluster.get(*secret)["data"] for cluster in (fleet.hub, fleet.edge)]

    assert [("token" in data, "tls.crt" in data) for data in held] == [(True, False), (False, True)]
    fleet.hub.await_rollouts()


def test_pod_of_the_hub_uses_the_account_of_another_cluster(fleet: Fleet, account: str) -> None:
    script = (WHO_AM_I + ONCE).replace("SERVER", fleet.edge_url)

    said = fleet.hub.run_python(script, namespace="edge-2", secret=account)

    assert said.strip() == "system:serviceaccount:open-cluster-management-agent-addon:robot"


def test_every_credential_is_rotated_while_a_pod_uses_one(fleet: Fleet, account: str) -> None:
    hub = fleet.hub
    hub.start_python((WHO_AM_I + UNTIL_REFUSED).replace("SERVER", fleet.edge_url), namespace="edge-2", secret=account)
    hub.wait("condition=Ready", "-n", "edge-2", "pod/script")
    before = [certificate(cluster) for cluster in (hub, fleet.edge)]

    hub.watchword("rotate", "--all", "--yes")

    assert all(now != then for now, then in zip([certificate(hub), certificate(fleet.edge)], before, strict=True))
    token = hashlib.sha256(hub.secret_text(account, "edge-2", "token").encode()).hexdigest()
    with hub.running("kubectl", "logs", "-f", "-n", "edge-2", "script", ready=token):
        pass
    assert hub.get("pod", "script", "-n", "edge-2")["status"]["phase"] == "Running"
    hub.kubectl("delete", "pod", "-n", "edge-2", "script", "--grace-period=0", "--force")


def test_certificates_of_minutes_are_renewed_by_themselves(fleet: Fleet) -> None:
    """The signer backdates by five minutes: at 40 to 80 percent of the life, renewal is due within 36 seconds."""
    hub = fleet.hub
    hub.node.restart_with("kube-controller-manager", "--cluster-signing-duration=2m")
    hub.watchword("rotate", "cluster", "edge-1", "edge-2", "--yes")

    secret = ("secret", "hub-kubeconfig-secret", "-n", "open-cluster-management-agent")
    before = [cluster.watch("{.data.tls\\.crt}", bool, *secret) for cluster in (hub, fleet.edge)]

    for cluster, held in zip((hub, fleet.edge), before, strict=True):
        cluster.watch("{.data.tls\\.crt}", held.__ne__, *secret)

    hub.node.restart_with("kube-controller-manager")
    hub.watchword("rotate", "cluster", "edge-1", "edge-2", "--yes")
    await_members(hub)


def test_dashboard_behind_its_service_shows_what_a_token_may_read(fleet: Fleet) -> None:
    hub = fleet.hub
    manifests = hub.watchword("manifests", "dashboard").stdout
    hub.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
    hub.await_rollouts()
    hub.kubectl("create", "serviceaccount", "viewer", "-n", "default")
    token = hub.kubectl("create", "token", "viewer", "-n", "default").strip()
    service = ("-n", "open-cluster-management", "service/watchword-dashboard")

    with hub.running("kubectl", "port-forward", *service, ":8080", ready="Forwarding from 127.0.0.1") as said:
        url = f"http://{said.split()[2]}"
        signing_in = ("curl", "--silent", "--cookie-jar", "cookies", "--header", f"Origin: {url}", f"{url}/login")
        hub.run(*signing_in, "--data-urlencode", "token@-", stdin=token)
        asked = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code} ", "--cookie", "cookies")
        cluster = f"{url}/api/clusters/edge-1"
        refused = hub.run(*asked, cluster).stdout + hub.run(*asked[:-2], cluster).stdout
        seen = hub.run(*asked, f"{url}/").stdout

    assert (refused, seen) == ("404 401 ", "200 ")
    hub.kubectl("delete", "serviceaccount", "viewer", "-n", "default")
    hub.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=manifests)


def test_other_replica_takes_over_from_a_lost_leader(fleet: Fleet) -> None:
    leader = fleet.hub.get("lease", "watchword-hub-lock", "-n", HUB)["spec"]["holderIdentity"]

    fleet.hub.kubectl("delete", "pod", "-n", HUB, leader.split("_")[0], "--grace-period=0", "--force")

    fleet.hub.wait_for_other("watchword-hub-lock", HUB, leader)
    fleet.hub.await_rollouts()


@pytest.mark.usefixtures("account")  # whose add-on is one of the processes
def test_every_process_that_is_killed_comes_back_and_the_clusters_stay_members(fleet: Fleet) -> None:
    hub = fleet.hub
    words = ("operator", "agent", "hub", "managed-serviceaccount")
    running = {word: hub.node.containers(f"/usr/local/bin/watchword\0{word}") for word in words}
    assert all(running.values()), running
    for pids in running.values():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    for process in (
        "kubelet",
        "containerd",
        "kube-proxy",
        "kube-scheduler",
        "kube-controller-manager",
        "kube-apiserver",
        "etcd",
    ):
        hub.node.kill(process)
        hub.await_server()

    await_members(hub)
    hub.await_rollouts()
    hub.watchword("doctor")


def test_drained_node_takes_everything_up_again(fleet: Fleet) -> None:
    fleet.hub.kubectl("drain", "node", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=200s")
    fleet.hub.kubectl("uncordon", "node")

    fleet.hub.await_rollouts()
    await_members(fleet.hub)


def test_restored_hub_has_its_cluster_again_after_etcd_was_lost(fleet: Fleet) -> None:
    hub = fleet.hub
    (hub.folder / "passphrase").write_text("correct horse battery staple\n")
    secret = ("--hub", "--passphrase-file", "passphrase")
    hub.watchword("backup", "hub.backup", *secret)
    before = certificate(fleet.edge)

    hub.node.lose_etcd()
    hub.watchword("restore", "hub.backup", *secret, "--yes")
    hub.watchword("init", "--deploy", "--wait")

    hub.await_renewal(*LEASES[1])
    hub.wait("condition=ManagedClusterConditionAvailable", "managedcluster/edge-2")
    assert certificate(fleet.edge) == before
