"""Names, labels, owners and finalizers of any object."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.apiserver.kinds import metadata as names

LABEL_KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("rule", "name", "complaints"),
    [
        pytest.param(names.dns_label, "a-1", [], id="label"),
        pytest.param(names.dns_label, "a.b", ["must not contain dots"], id="dots in a label"),
        pytest.param(names.dns_label, "a" * 64, ["must be no more than 63 characters"], id="long label"),
        pytest.param(names.dns_subdomain, "a.b-c", [], id="subdomain"),
        pytest.param(names.dns_subdomain, "a" * 254, ["must be no more than 253 characters"], id="long subdomain"),
        pytest.param(names.dns1035_label, "a1", [], id="service"),
        pytest.param(names.path_segment, "system:node", [], id="role with a colon"),
        pytest.param(names.path_segment, "..", ["may not be '..'"], id="climbing out"),
        pytest.param(names.path_segment, "a/b%", ["may not contain '/'", "may not contain '%'"], id="path in a name"),
        pytest.param(names.qualified_name, "example.com/Name_1", [], id="qualified"),
        pytest.param(names.qualified_name, "/x", ["prefix part must be non-empty"], id="empty prefix"),
        pytest.param(
            names.qualified_name,
            "a b",
            [f"name part {LABEL_KEY}"],
            id="space in a key",
        ),
        pytest.param(names.qualified_name, "x" * 64, ["name part must be no more than 63 bytes"], id="long key"),
        pytest.param(names.label_value, "", [], id="empty value"),
        pytest.param(names.label_value, "x" * 64, ["must be no more than 63 bytes"], id="long value"),
        pytest.param(names.config_key, "..data", ["must not start with '..'"], id="hidden key"),
        pytest.param(names.config_key, ".", ["must not be '.'"], id="dot"),
    ],
)
def test_names(rule: names.NameRule, name: str, complaints: list[str]) -> None:
    assert rule(name) == complaints


@pytest.mark.parametrize(
    ("prefix", "right"),
    [
        pytest.param("a-", True, id="the suffix follows a dash"),
        pytest.param("A.b-", False, id="an upper-case letter"),
        pytest.param("-", False, id="nothing but a dash"),
    ],
)
def test_generated_prefixes(prefix: str, right: bool) -> None:  # noqa: FBT001 - a row of a table
    assert (names.generated_prefix(prefix, names.dns_label) == []) is right


@pytest.mark.parametrize(
    ("metadata", "complaints"),
    [
        pytest.param(
            {"namespace": "A"},
            [
                (
                    'metadata.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case '
                    "alphanumeric characters or '-', and must start and end with an alphanumeric character "
                    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                )
            ],
            id="namespace",
        ),
        pytest.param(
            {"finalizers": ["orphan", "foregroundDeletion"]},
            [
                (
                    'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                    "finalizer orphan and foregroundDeletion cannot be both set"
                )
            ],
            id="contradicting finalizers",
        ),
        pytest.param(
            {"annotations": {"a": "x" * (256 * 1024)}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="annotations too large",
        ),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
            [
                'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
                'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
                'metadata.ownerReferences.name: Invalid value: "": must not be empty',
                'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
            ],
            id="empty owner",
        ),
    ],
)
def test_metadata_of_a_new_object(kind_harness: Any, metadata: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write("ConfigMap", {"metadata": metadata})

    assert errors == complaints


def test_two_controllers_are_refused(kind_harness: Any) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "ab"]

    _, errors = kind_harness.write("ConfigMap", {"metadata": {"ownerReferences": owners}})

    assert len(errors) == 1
    assert errors[0].endswith('Found "true" in references for Pod/a and Pod/b')


def test_a_deleting_object_gains_no_finalizers(kind_harness: Any) -> None:
    old = {"metadata": {"name": "thing", "namespace": "default", "deletionTimestamp": "2024-01-01T00:00:00Z"}}
    body = {"metadata": {**old["metadata"], "finalizers": ["a.io/b"]}}

    _, errors = kind_harness.write("ConfigMap", body, old=old)

    assert (
        errors
        == [
            (
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
                'found new finalizers []string{"a.io/b"}'
            )
        ]
        * 2
    )  # validated for every object and again for the kind
