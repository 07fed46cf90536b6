"""Pods, nodes and services."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.apiserver.kinds.pods import pull_policy, qos_class


def pod(**spec: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "a:1"}], **spec}}


def test_new_pod_is_pending_and_tolerates_short_failures(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("Pod", pod())

    assert errors == []
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert [each["key"] for each in stored["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert (stored["spec"]["priority"], stored["spec"]["enableServiceLinks"]) == (0, True)


@pytest.mark.parametrize(
    ("spec", "complaints"),
    [
        pytest.param({"containers": []}, ["spec.containers: Required value"], id="no containers"),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "a", "image": " x"}]},
            [
                "spec.containers[0].image: Required value",
                'spec.containers[1].name: Duplicate value: "a"',
                'spec.containers[1].image: Invalid value: " x": must not have leading or trailing whitespace',
            ],
            id="images and names",
        ),
        pytest.param(
            {"restartPolicy": "x"},
            ['spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never"'],
            id="restart policy",
        ),
        pytest.param(
            {"containers": [{"name": "c", "image": "a", "volumeMounts": [{"name": "v", "mountPath": ""}]}]},
            [
                'spec.containers[0].volumeMounts[0].name: Not found: "v"',
                "spec.containers[0].volumeMounts[0].mountPath: Required value",
            ],
            id="mount of no volume",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "hostPath": {"path": "/a/..", "type": "X"}}]},
            [
                "spec.volumes[0].hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                (
                    'spec.volumes[0].hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", '
                    '"CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
                ),
            ],
            id="host path",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]},
            ["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
            id="two sources",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 1}}]}}]},
            [
                (
                    "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: "
                    "may not specify a duration less than 10 minutes"
                ),
                "spec.volumes[0].projected.sources[0].serviceAccountToken.path: Required value",
            ],
            id="a token too short to use",
        ),
    ],
)
def test_pods_that_are_refused(kind_harness: Any, spec: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write("Pod", pod(**spec))

    assert errors == complaints


def test_of_a_stored_pod_only_the_image_changes(kind_harness: Any) -> None:
    old, _ = kind_harness.write("Pod", pod())
    repainted, renamed = deepcopy(old), deepcopy(old)
    repainted["spec"]["containers"][0]["image"] = "a:2"
    renamed["spec"]["hostNetwork"] = True

    _, fine = kind_harness.write("Pod", repainted, old=old)
    _, refused = kind_harness.write("Pod", renamed, old=old)

    assert fine == []
    assert len(refused) == 1
    assert refused[0].startswith("spec: Forbidden: pod updates may not change fields other than")


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("nginx", "Always", id="no tag"),
        pytest.param("r:5000/nginx:latest", "Always", id="latest"),
        pytest.param("r:5000/nginx", "Always", id="a port is no tag"),
        pytest.param("nginx:1", "IfNotPresent", id="tag"),
        pytest.param("nginx@sha256:00", "IfNotPresent", id="digest"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({}, "BestEffort", id="nothing asked"),
        pytest.param({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, "Burstable", id="memory left open"),
        pytest.param(
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}},
            "Guaranteed",
            id="all asked is all given",
        ),
    ],
)
def test_quality_of_service(resources: Object, expected: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == expected


def test_everything_a_node_has_is_allocatable_unless_it_says_otherwise(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("Node", {"status": {"capacity": {"cpu": 4}}})

    assert errors == []
    assert stored["status"]["allocatable"] == {"cpu": "4"}


def test_a_service_gets_an_address_and_keeps_it(kind_harness: Any) -> None:
    first, errors = kind_harness.write("Service", {"spec": {"ports": [{"port": 80}], "type": "NodePort"}})
    body = {**deepcopy(first), "spec": {"ports": [{"port": 80}], "type": "NodePort"}}

    again, more = kind_harness.write("Service", body, old=first)

    assert errors == more == []
    assert again["spec"] == first["spec"]
    assert first["spec"]["ports"][0]["targetPort"] == 80
    assert 30000 <= first["spec"]["ports"][0]["nodePort"] <= 32767
    assert first["spec"]["clusterIP"].startswith("10.")
    assert first["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize(
    ("spec", "complaints"),
    [
        pytest.param({}, ["spec.ports: Required value"], id="no ports"),
        pytest.param({"clusterIP": "None"}, [], id="headless needs none"),
        pytest.param({"type": "ExternalName"}, ["spec.externalName: Required value"], id="no external name"),
        pytest.param(
            {"ports": [{"port": 0}, {"port": 80}]},
            [
                "spec.ports[0].name: Required value",
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].name: Required value",
            ],
            id="ports",
        ),
        pytest.param(
            {"type": "X", "ports": [{"port": 80, "protocol": "x"}]},
            [
                'spec.ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
                (
                    'spec.type: Unsupported value: "X": supported values: '
                    '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
                ),
            ],
            id="type and protocol",
        ),
    ],
)
def test_services_are_validated(kind_harness: Any, spec: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write("Service", {"spec": spec})

    assert errors == complaints
