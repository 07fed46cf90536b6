"""Pods pull from a real registry over TLS with the pull secret of their account, and are refused without the right."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.node.real_cluster import RESTRICTED, RealCluster

from tools.node_images import provide_pause_image
from watchword.api.yaml import dump
from watchword.testing.kube_apiserver_backend import cache_folder
from watchword.testing.process import free_port

PROGRAMS = ("docker-registry", "skopeo", "openssl")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
SERVICE = "registry.test"
SYSTEM = "watchword-registry-auth"
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@contextmanager
def open_registry(cluster: RealCluster, realm: str, root: Path) -> Iterator[str]:
    """Run a registry with TLS that the node trusts, with one image in it; yield its host and port."""
    host = f"{cluster.node.gateway}:{free_port()}"
    key, certificate = cluster.folder / "tls.key", cluster.folder / "tls.crt"
    cluster.run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
        *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=registry"),
        *("-addext", f"subjectAltName=IP:{cluster.node.gateway}"),
    )
    trusted = cluster.node.settings.folder / "certs.d" / host
    trusted.mkdir()
    (trusted / "hosts.toml").write_text(f'server = "https://{host}"\n[host."https://{host}"]\n  ca = "{certificate}"\n')
    storage = {"filesystem": {"rootdirectory": str(cluster.folder / "registry")}}
    token = {"realm": realm, "service": SERVICE, "issuer": "watchword", "rootcertbundle": str(root)}
    tls = {"certificate": str(certificate), "key": str(key)}
    inside = f"127.0.0.1:{free_port()}"
    with (
        serving(cluster, "open", {"version": "0.1", "storage": storage, "http": {"addr": inside}}),
        serving(
            cluster, "guarded",
            {"version": "0.1", "storage": storage, "http": {"addr": host, "tls": tls}, "auth": {"token": token}},
        ),
    ):  # fmt: skip
        image = cache_folder().parent / "pause"
        provide_pause_image("go", image)
        copy = ("skopeo", "copy", "--dest-tls-verify=false", f"oci:{image}", f"docker://{inside}/team-a/app:1")
        for url in (f"http://{inside}/v2/", f"https://{host}/v2/"):
            cluster.await_answer(url)
        cluster.run(*copy)
        yield host


@contextmanager
def serving(cluster: RealCluster, name: str, configuration: dict[str, object]) -> Iterator[None]:
    path = cluster.folder / f"{name}.yaml"
    path.write_text(dump(configuration))
    with (cluster.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(path)], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def a_pod(namespace: str, image: str) -> str:
    container = {"name": "main", "image": image, "imagePullPolicy": "Always", "securityContext": RESTRICTED}
    metadata = {"name": "app", "namespace": namespace}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@contextmanager
def token_service(cluster: RealCluster) -> Iterator[str]:
    """Deploy the token service with its key; yield the host of a registry that asks it."""
    tokens = cluster.watchword("manifests", "registry-auth", "--service", SERVICE, "--audience", SERVICE).stdout
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=tokens)
    key = cluster.watchword("manifests", "registry-auth-key").stdout
    cluster.kubectl("create", "-f", "-", stdin=key)
    root = cluster.folder / "root.pem"
    root.write_text(cluster.secret_text("watchword-registry-auth", SYSTEM, "tls.crt"))
    service = cluster.get("service", "watchword-registry-auth", "-n", SYSTEM)["spec"]
    realm = f"http://{service['clusterIP']}:{service['ports'][0]['port']}/token"

    with open_registry(cluster, realm, root) as host:
        cluster.await_rollouts()
        yield host
    cluster.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=tokens)


def test_pod_pulls_as_far_as_its_account_may(cluster: RealCluster) -> None:
    with token_service(cluster) as host:
        flags = ("--registry", host, "--audience", SERVICE)
        pulling = cluster.watchword("manifests", "pull-secrets", *flags).stdout
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=pulling)
        cluster.await_rollouts()
        for namespace in ("team-a", "team-b"):
            cluster.kubectl("create", "namespace", namespace)
            cluster.wait("create", "-n", namespace, "serviceaccount/default")
            cluster.wait("jsonpath={.imagePullSecrets[0].name}", "-n", namespace, "serviceaccount/default")
        rights = ("--clusterrole=system:image-puller", "--serviceaccount=team-a:default")
        cluster.kubectl("create", "rolebinding", "pull", "-n", "team-a", *rights)
        for namespace in ("team-a", "team-b"):
            cluster.kubectl("create", "-f", "-", stdin=a_pod(namespace, f"{host}/team-a/app:1"))

        cluster.wait("condition=Ready", "-n", "team-a", "pod/app")
        waiting = "{.status.containerStatuses[0].state.waiting.reason}"
        cluster.wait(f"jsonpath={waiting}=ImagePullBackOff", "-n", "team-b", "pod/app")

        cluster.kubectl("delete", "namespace", "team-a", "team-b")
        cluster.watchword("undeploy", "--pull-secrets")
        cluster.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=pulling)


AUDIENCE_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "registry-audience"},
    "rules": [{"apiGroups": [""], "resources": [SERVICE], "verbs": ["request-serviceaccounts-token-audience"]}],
}


def test_kubelet_pulls_with_the_token_of_the_pod_and_without_any_secret(cluster: RealCluster) -> None:
    with token_service(cluster) as host:
        plugins = cluster.folder / "plugins"
        plugins.mkdir()
        plugin = plugins / "watchword-credential-provider"
        plugin.symlink_to(Path(sys.executable).with_name("watchword"))
        configuration = cluster.folder / "credential-provider.yaml"
        flags = ("--image", host, "--audience", SERVICE)
        configuration.write_text(cluster.watchword("credential-provider", "config", *flags).stdout)
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(AUDIENCE_ROLE))
        nodes = ("--clusterrole=registry-audience", "--group=system:nodes")
        cluster.kubectl("create", "clusterrolebinding", "registry-audience", *nodes)
        provider = (
            f"--image-credential-provider-config={configuration}",
            f"--image-credential-provider-bin-dir={plugins}",
        )
        cluster.node.restart_with("kubelet", *provider)
        rights = ("--clusterrole=system:image-puller", "--serviceaccount=team-a:default")
        for namespace in ("team-a", "team-b"):
            cluster.kubectl("create", "namespace", namespace)
            cluster.wait("create", "-n", namespace, "serviceaccount/default")
        cluster.kubectl("create", "rolebinding", "pull", "-n", "team-a", *rights)
        for namespace in ("team-a", "team-b"):
            cluster.kubectl("create", "-f", "-", stdin=a_pod(namespace, f"{host}/team-a/app:1"))

        cluster.wait("condition=Ready", "-n", "team-a", "pod/app")
        waiting = "{.status.containerStatuses[0].state.waiting.reason}"
        cluster.wait(f"jsonpath={waiting}=ImagePullBackOff", "-n", "team-b", "pod/app")

        cluster.kubectl("delete", "namespace", "team-a", "team-b")
        cluster.kubectl("delete", "clusterrolebinding,clusterrole", "registry-audience")
        cluster.node.restart_with("kubelet")
        cluster.wait("condition=Ready", "node/node")
