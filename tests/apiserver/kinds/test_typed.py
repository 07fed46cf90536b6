"""Bodies in the shape of their kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.meta import Object
from watchword.apiserver.kinds.messages import messages
from watchword.apiserver.kinds.typed import TypeMismatch, typed
from watchword.apiserver.serving.model import ApiError

CORE = "io.k8s.api.core.v1."
APPS = "io.k8s.api.apps.v1."


@pytest.mark.parametrize(
    ("group", "kind", "body", "complaint"),
    [
        pytest.param(
            "",
            "Secret",
            {"metadata": {"name": 1}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
            id="number for a text",
        ),
        pytest.param(
            "",
            "Secret",
            {"stringData": ["a"]},
            "json: cannot unmarshal array into Go struct field Secret.stringData of type map[string]string",
            id="list for a map",
        ),
        pytest.param(
            "",
            "Secret",
            {"metadata": {"ownerReferences": {}}},
            "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.ownerReferences "
            "of type []v1.OwnerReference",
            id="object for a list",
        ),
        pytest.param("", "Secret", {"data": {"a": "%%"}}, "illegal base64 data at input byte 0", id="not base64"),
        pytest.param("", "Secret", {"data": {"a": "YWFhYQ"}}, "illegal base64 data at input byte 4", id="cut base64"),
        pytest.param(
            "",
            "Secret",
            {"metadata": {"creationTimestamp": "x"}},
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse it',
            id="not a time",
        ),
        pytest.param(
            "apps",
            "Deployment",
            {"spec": {"replicas": 3.5}},
            "json: cannot unmarshal number 3.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            id="fraction for an integer",
        ),
        pytest.param(
            "apps",
            "Deployment",
            {"spec": {"template": {"spec": {"containers": [{"env": [{"value": 1}]}]}}}},
            "json: cannot unmarshal number into Go struct field EnvVar.spec.template.spec.containers.env.value "
            "of type string",
            id="deep inside lists",
        ),
        pytest.param(
            "apps",
            "Deployment",
            {"spec": {"template": {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]}}}},
            "json: cannot unmarshal bool into Go struct field "
            "HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
            id="below an inlined message",
        ),
        pytest.param(
            "coordination.k8s.io",
            "Lease",
            {"spec": {"renewTime": "2020-01-01T00:00:00Z"}},
            'parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse it',
            id="seconds where microseconds are due",
        ),
        pytest.param(
            "",
            "Node",
            {"status": {"capacity": {"cpu": "xx"}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="not a quantity",
        ),
    ],
)
def test_wrong_type_is_refused_with_the_message_of_kube_apiserver(
    kind_harness: Any, group: str, kind: str, body: Object, complaint: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        kind_harness.write(f"{kind}.{group}" if group else kind, body)

    assert refusal.value.code == 400
    assert refusal.value.message == f'{kind} in version "v1" cannot be handled as a {kind}: {complaint}'


@pytest.mark.parametrize(
    ("message", "body", "shaped"),
    [
        pytest.param(
            f"{CORE}ConfigMap", {"x": 1, "metadata": {"labels": {}}}, {"metadata": {}}, id="unknown and empty"
        ),
        pytest.param(
            f"{CORE}ServiceAccount",
            {"metadata": {"creationTimestamp": None}, "automountServiceAccountToken": False},
            {"metadata": {}, "automountServiceAccountToken": False},
            id="null is absent, false behind a pointer is not",
        ),
        pytest.param(
            "io.k8s.api.rbac.v1.ClusterRole", {}, {"metadata": {}, "rules": None}, id="what is always written"
        ),
        pytest.param(
            f"{CORE}ResourceRequirements",
            {"limits": {"cpu": 0.5, "memory": "1024Mi"}},
            {"limits": {"cpu": "500m", "memory": "1Gi"}},
            id="quantities are canonical",
        ),
        pytest.param(
            f"{CORE}Probe",
            {"httpGet": {"port": "http"}, "periodSeconds": 0, "timeoutSeconds": 7},
            {
                "httpGet": {"path": "/", "port": "http", "scheme": "HTTP"},
                "timeoutSeconds": 7,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            },
            id="inlined fields stand beside their own",
        ),
        pytest.param(
            "io.k8s.api.coordination.v1.LeaseSpec",
            {"renewTime": "2024-01-01T01:00:00.123456+01:00", "leaseDurationSeconds": 0},
            {"renewTime": "2024-01-01T00:00:00.123456Z", "leaseDurationSeconds": 0},
            id="instants are UTC",
        ),
    ],
)
def test_a_body_takes_the_shape_of_its_kind(message: str, body: Object, shaped: Object) -> None:
    assert typed().conform(message, body) == shaped


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(name=st.sampled_from(sorted(messages().written)), values=st.lists(_json, max_size=6), shift=st.integers(0, 50))
@settings(max_examples=60)
def test_any_json_is_shaped_or_refused_and_shaping_twice_changes_nothing(
    name: str, values: list[Any], shift: int
) -> None:
    keys = [each.name for each in messages().json_fields(name)] or ["x"]
    body = {keys[(shift + index) % len(keys)]: value for index, value in enumerate(values)}

    try:
        once = typed().conform(name, body)
    except TypeMismatch:
        return

    assert typed().conform(name, once) == once
