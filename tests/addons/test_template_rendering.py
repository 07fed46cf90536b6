"""What becomes of an AddOnTemplate on a cluster, held against what Open Cluster Management renders."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from watchword.addons.definition import AddonInstance
from watchword.addons.templates.definition import read_template
from watchword.addons.templates.deployment_config import DeploymentConfig, read_mirrors, rewrite_image
from watchword.api.addon import Addon
from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE
from watchword.api.resources import ADDON_TEMPLATES, DEPLOYMENTS
from watchword.testing.builders import a_cluster, an_addon

SIGNER = "example.com/signer"
KUBE_CLIENT: Object = {"type": "KubeClient", "kubeClient": {"hubPermissions": []}}
CUSTOM_SIGNER: Object = {"type": "CustomSigner", "customSigner": {"signerName": SIGNER, "signingCA": {"name": "ca"}}}
CA_BUNDLE = "-----BEGIN CERTIFICATE-----\n"


def a_workload(kind: str = "Deployment", namespace: str = "tools", **pod: Any) -> Object:
    containers = [{"name": "agent", "image": "quay.io/example/agent:v1", "env": [{"name": "OWN", "value": "1"}]}]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "agent", "namespace": namespace},
        "spec": {"template": {"spec": {"containers": containers, **pod}}},
    }


def rendered(
    *manifests: Object,
    registration: list[Object] | None = None,
    config: Object | None = None,
    annotations: dict[str, str] | None = None,
) -> list[Object]:
    spec = {
        "addonName": "tool",
        "agentSpec": {"workload": {"manifests": list(manifests)}},
        **({"registration": registration} if registration else {}),
    }
    template = ADDON_TEMPLATES.manifest(ObjectKey.cluster("tool"), spec=spec)
    addon = an_addon("tool", cluster="c1")
    definition = read_template(template, addon, DeploymentConfig.read({"spec": config or {}}))
    cluster = a_cluster("c1")
    cluster["metadata"]["annotations"] = annotations or {}
    return list(definition.manifests(AddonInstance(Addon.read(addon), Cluster.read(cluster))))


def pod_of(obj: Object) -> Object:
    pod: Object = obj["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_pods_get_the_credentials_that_the_template_asks_for(kind: str) -> None:
    [workload] = rendered(a_workload(kind), registration=[KUBE_CLIENT, CUSTOM_SIGNER])

    assert pod_of(workload) == {
        "containers": [
            {
                "name": "agent",
                "image": "quay.io/example/agent:v1",
                "env": [
                    {"name": "OWN", "value": "1"},
                    {"name": "HUB_KUBECONFIG", "value": "/managed/hub-kubeconfig/kubeconfig"},
                    {"name": "CLUSTER_NAME", "value": "c1"},
                ],
                "volumeMounts": [
                    {"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig"},
                    {"name": "cert-example-com-signer", "mountPath": "/managed/example.com-signer"},
                ],
            }
        ],
        "volumes": [
            {"name": "hub-kubeconfig", "secret": {"secretName": "tool-hub-kubeconfig"}},
            {"name": "cert-example-com-signer", "secret": {"secretName": "tool-example.com-signer-client-cert"}},
        ],
    }


def test_pods_of_an_add_on_without_credentials_know_their_cluster() -> None:
    [workload] = rendered(a_workload())

    expected = [{"name": "OWN", "value": "1"}, {"name": "CLUSTER_NAME", "value": "c1"}]
    assert pod_of(workload)["containers"][0]["env"] == expected
    assert "volumes" not in pod_of(workload)


def test_volumes_of_the_template_stay() -> None:
    own = {"name": "own", "emptyDir": {}}

    [workload] = rendered(a_workload(volumes=[own]), registration=[KUBE_CLIENT])

    assert [volume["name"] for volume in pod_of(workload)["volumes"]] == ["own", "hub-kubeconfig"]


def test_credential_that_the_template_mounts_itself_is_mounted_once() -> None:
    own = {"name": "hub-kubeconfig", "secret": {"secretName": "tool-hub-kubeconfig"}}
    mount = {"name": "hub-kubeconfig", "mountPath": "/elsewhere"}
    manifest = a_workload(volumes=[own])
    pod_of(manifest)["containers"][0]["volumeMounts"] = [mount]

    [workload] = rendered(manifest, registration=[KUBE_CLIENT])

    assert pod_of(workload)["volumes"] == [own]
    assert pod_of(workload)["containers"][0]["volumeMounts"] == [mount]


FULL_CONFIG: Object = {
    "customizedVariables": [{"name": "LEVEL", "value": "debug"}, {"name": "CLUSTER_NAME", "value": "another"}],
    "nodePlacement": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "infra", "operator": "Exists"}]},
    "registries": [{"source": "quay.io/example", "mirror": "mirror.test/example"}],
    "proxyConfig": {
        "httpsProxy": "https://proxy.test:3128",
        "noProxy": "10.0.0.0/8",
        "caBundle": base64.b64encode(CA_BUNDLE.encode()).decode(),
    },
    "agentInstallNamespace": "elsewhere",
    "resourceRequirements": [
        {"containerID": "*:*:*", "resources": {"limits": {"memory": "1Gi"}}},
        {"containerID": "deployments:agent:*", "resources": {"limits": {"memory": "2Gi"}}},
    ],
}


def test_deployment_config_is_applied() -> None:
    manifest = a_workload(nodeSelector={"old": "1"})
    pod_of(manifest)["containers"][0]["args"] = ["--level={{LEVEL}}", "--cluster={{CLUSTER_NAME}}"]

    workload, bundle = rendered(manifest, registration=[KUBE_CLIENT], config=FULL_CONFIG)

    assert workload["metadata"] == {"name": "agent", "namespace": "elsewhere"}
    assert pod_of(workload) == {
        "containers": [
            {
                "name": "agent",
                "image": "mirror.test/example/agent:v1",
                "args": ["--level=debug", "--cluster=c1"],
                "env": [
                    {"name": "OWN", "value": "1"},
                    {"name": "HUB_KUBECONFIG", "value": "/managed/hub-kubeconfig/kubeconfig"},
                    {"name": "CLUSTER_NAME", "value": "c1"},
                    {"name": "INSTALL_NAMESPACE", "value": "elsewhere"},
                    {"name": "HTTPS_PROXY", "value": "https://proxy.test:3128"},
                    {"name": "https_proxy", "value": "https://proxy.test:3128"},
                    {"name": "NO_PROXY", "value": "10.0.0.0/8"},
                    {"name": "no_proxy", "value": "10.0.0.0/8"},
                    {"name": "CA_BUNDLE_FILE_PATH", "value": "/managed/proxy-ca/ca-bundle.crt"},
                ],
                "volumeMounts": [
                    {"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig"},
                    {"name": "proxy-ca-bundle", "mountPath": "/managed/proxy-ca"},
                ],
                "resources": {"limits": {"memory": "2Gi"}},
            }
        ],
        "volumes": [
            {"name": "hub-kubeconfig", "secret": {"secretName": "tool-hub-kubeconfig"}},
            {"name": "proxy-ca-bundle", "configMap": {"name": "tool-proxy-ca"}},
        ],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
    }
    assert bundle == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tool-proxy-ca", "namespace": "elsewhere"},
        "data": {"ca-bundle.crt": CA_BUNDLE},
    }


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            {"kind": "Namespace", "metadata": {"name": "tools"}},
            {"kind": "Namespace", "metadata": {"name": "elsewhere"}},
            id="a namespace",
        ),
        pytest.param(
            {"kind": "ClusterRole", "metadata": {"name": "tool"}},
            {"kind": "ClusterRole", "metadata": {"name": "tool"}},
            id="an object of the whole cluster",
        ),
        pytest.param(
            {
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "tool"},
                "subjects": [{"kind": "ServiceAccount", "name": "tool", "namespace": "tools"}],
            },
            {
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "tool"},
                "subjects": [{"kind": "ServiceAccount", "name": "tool", "namespace": "elsewhere"}],
            },
            id="a binding",
        ),
    ],
)
def test_install_namespace_of_a_config_moves_everything(manifest: Object, expected: Object) -> None:
    assert rendered(manifest, config={"agentInstallNamespace": "elsewhere"}) == [expected]


def test_tolerations_alone_are_applied() -> None:
    tolerations = [{"key": "infra"}]

    [workload] = rendered(
        a_workload(nodeSelector={"disk": "ssd"}), config={"nodePlacement": {"tolerations": tolerations}}
    )

    assert pod_of(workload)["tolerations"] == tolerations
    assert pod_of(workload)["nodeSelector"] == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("config", "image"),
    [
        pytest.param({}, "cluster.test/agent:v1", id="of the cluster"),
        pytest.param(
            {"registries": [{"source": "quay.io", "mirror": "own.test"}]}, "own.test/example/agent:v1", id="own"
        ),
        pytest.param({"registries": []}, "quay.io/example/agent:v1", id="explicitly none"),
    ],
)
def test_registries_of_the_config_go_before_those_of_the_cluster(config: Object, image: str) -> None:
    mirror = '{"registries":[{"source":"quay.io/example","mirror":"cluster.test"}]}'
    said = {"open-cluster-management.io/image-registries": mirror}

    [workload] = rendered(a_workload(), config=config, annotations=said)

    assert pod_of(workload)["containers"][0]["image"] == image


@pytest.mark.parametrize(
    ("registries", "image"),
    [
        pytest.param([("quay.io/a/", "mirror.test/")], "mirror.test/agent:v1", id="slashes at the end"),
        pytest.param([("", "mirror.test")], "mirror.test/agent:v1", id="every image"),
        pytest.param([("docker.io", "mirror.test")], "quay.io/a/agent:v1", id="another source"),
        pytest.param([("quay.io", "")], "quay.io/a/agent:v1", id="no mirror"),
        pytest.param(
            [("quay.io", "first.test"), ("quay.io/a", "last.test")], "last.test/agent:v1", id="the last match"
        ),
    ],
)
def test_rewrite_image(registries: list[tuple[str, str]], image: str) -> None:
    mirrors = read_mirrors({"source": source, "mirror": mirror} for source, mirror in registries)

    assert rewrite_image("quay.io/a/agent:v1", mirrors) == image


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"registries": 3}', '{"registries": ["x"]}'])
def test_annotation_that_cannot_be_read_changes_nothing(text: str) -> None:
    [workload] = rendered(a_workload(), annotations={"open-cluster-management.io/image-registries": text})

    assert pod_of(workload)["containers"][0]["image"] == "quay.io/example/agent:v1"


@pytest.mark.parametrize(
    ("manifests", "config", "namespace"),
    [
        pytest.param([], {}, ADDON_NAMESPACE, id="no workload"),
        pytest.param([a_workload(namespace="tools")], {}, "tools", id="of the Deployment"),
        pytest.param(
            [a_workload("DaemonSet", "nodes"), a_workload()], {}, "tools", id="a Deployment before a DaemonSet"
        ),
        pytest.param([a_workload("DaemonSet", "nodes")], {}, "nodes", id="of the DaemonSet"),
        pytest.param([a_workload(namespace="on-{{CLUSTER_NAME}}")], {}, "on-c1", id="a variable"),
        pytest.param([a_workload()], {"agentInstallNamespace": "elsewhere"}, "elsewhere", id="of the config"),
    ],
)
def test_credentials_lie_where_the_pods_are(manifests: list[Object], config: Object, namespace: str) -> None:
    spec = {"addonName": "tool", "agentSpec": {"workload": {"manifests": manifests}}}
    template = ADDON_TEMPLATES.manifest(ObjectKey.cluster("tool"), spec=spec)

    definition = read_template(template, an_addon("tool", cluster="c1"), DeploymentConfig.read({"spec": config}))

    assert definition.install_namespace == namespace


def test_other_kinds_keep_their_content() -> None:
    job = DEPLOYMENTS.manifest(ObjectKey("tools", "other"), spec={"template": {"spec": {"containers": [{}]}}})
    job |= {"apiVersion": "batch/v1", "kind": "Job"}

    assert rendered(job, registration=[KUBE_CLIENT]) == [job]


def test_command_that_lets_an_addon_have_a_role_quotes_its_name() -> None:
    permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": "x; rm -r ~"}}
    registration = [{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}]

    (grant,) = read_template(
        {"spec": {"addonName": "tool", "registration": registration}},
        an_addon("tool", cluster="c1"),
        DeploymentConfig.read({"spec": {}}),
    ).grants

    assert "kubectl label clusterrole 'x; rm -r ~' " in grant.remedy


def test_patterns_and_braces_without_end_are_read_in_linear_time() -> None:
    workload = a_workload(containers=[{"name": "a:" * 500 + "b", "image": "a", "args": ["{{" * 200_000]}])
    rows = [{"containerID": "*:" * count + "x", "resources": {}} for count in range(2, 500)]

    [found] = rendered(workload, config={"resourceRequirements": rows, "customizedVariables": []})

    assert "resources" not in pod_of(found)["containers"][0]
    assert pod_of(found)["containers"][0]["args"] == ["{{" * 200_000]
