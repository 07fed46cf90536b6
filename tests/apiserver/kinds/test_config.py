"""Secrets and config maps."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from watchword.api.meta import Object


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_secret_is_opaque_and_its_plain_text_is_encoded_over_its_data(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("Secret", {"data": {"a": encoded("old"), "b": ""}, "stringData": {"a": "new"}})

    assert errors == []
    assert (stored["type"], stored["data"]) == ("Opaque", {"a": encoded("new"), "b": ""})
    assert "stringData" not in stored


@pytest.mark.parametrize(
    ("secret", "complaints"),
    [
        pytest.param({"type": "kubernetes.io/tls"}, ["data[tls.crt]", "data[tls.key]"], id="tls"),
        pytest.param({"type": "kubernetes.io/basic-auth"}, ["data[username]", "data[password]"], id="basic auth"),
        pytest.param({"type": "kubernetes.io/ssh-auth"}, ["data[ssh-privatekey]"], id="ssh"),
        pytest.param({"type": "kubernetes.io/dockerconfigjson"}, ["data[.dockerconfigjson]"], id="docker"),
        pytest.param(
            {"type": "kubernetes.io/service-account-token"},
            ["metadata.annotations[kubernetes.io/service-account.name]"],
            id="service account token",
        ),
    ],
)
def test_type_of_a_secret_requires_keys(kind_harness: Any, secret: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write("Secret", secret)

    assert errors == [f"{path}: Required value" for path in complaints]


def test_a_broken_docker_configuration_is_refused_without_showing_it(kind_harness: Any) -> None:
    secret = {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "planted-password"}}

    _, errors = kind_harness.write("Secret", secret)

    assert errors == [
        (
            'data[.dockercfg]: Invalid value: "<secret contents redacted>": '
            "invalid character 'p' looking for beginning of value"
        )
    ]


def test_the_values_of_a_secret_are_bounded(kind_harness: Any) -> None:
    _, exact = kind_harness.write("Secret", {"stringData": {"a": "x" * 1048576}})
    _, beyond = kind_harness.write("Secret", {"stringData": {"a": "x" * 1048577}})

    assert exact == []
    assert beyond == ["data: Too long: may not be more than 1048576 bytes"]


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_what_is_immutable_stays(kind_harness: Any, kind: str) -> None:
    old, _ = kind_harness.write(kind, {"immutable": True, "data": {"a": ""}})

    _, errors = kind_harness.write(kind, {**old, "immutable": False, "data": {"a": "YQ=="}}, old=old)

    detail = "Forbidden: field is immutable when `immutable` is set"
    assert errors == [f"immutable: {detail}", f"data: {detail}"]


def test_the_type_of_a_secret_never_changes(kind_harness: Any) -> None:
    old, _ = kind_harness.write("Secret", {})

    _, errors = kind_harness.write("Secret", {**old, "type": "other"}, old=old)

    assert errors == ['type: Invalid value: "other": field is immutable']


def test_a_key_may_not_be_text_and_bytes(kind_harness: Any) -> None:
    _, errors = kind_harness.write("ConfigMap", {"data": {"a": "x"}, "binaryData": {"a": "YQ=="}})

    assert errors == ['data[a]: Invalid value: "a": duplicate of key present in binaryData']


def test_a_service_account_keeps_only_the_names_of_its_secrets(kind_harness: Any) -> None:
    stored, _ = kind_harness.write("ServiceAccount", {"secrets": [{"name": "a", "namespace": "b", "uid": "c"}]})

    assert stored["secrets"] == [{"name": "a"}]
