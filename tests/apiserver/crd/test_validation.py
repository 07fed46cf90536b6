"""Definitions are refused with kube-apiserver's messages; each row was compared with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.crd.crd_manifests import a_definition, a_version, with_field, with_names, with_version

from watchword.api.meta import Object
from watchword.apiserver.crd.validation import definition_errors
from watchword.apiserver.serving.model import FieldError

TEXT = {"type": "string"}
AT = "spec.validation.openAPIV3Schema"
A = f"{AT}.properties[a]"
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def errors_of(definition: Object, old: Object | None = None) -> list[str]:
    return [str(error) for error in definition_errors(definition, old)]


def test_a_plain_definition_is_accepted() -> None:
    assert errors_of(a_definition()) == []


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        pytest.param(
            {**a_definition(), "metadata": {"name": "bar.ex.com"}},
            ['metadata.name: Invalid value: "bar.ex.com": must be spec.names.plural+"."+spec.group'],
            id="name",
        ),
        pytest.param(
            a_definition(scope="x"),
            ['spec.scope: Unsupported value: "x": supported values: "Cluster", "Namespaced"'],
            id="scope",
        ),
        pytest.param(a_definition(scope=""), ["spec.scope: Required value"], id="no scope"),
        pytest.param(
            with_version(schema=None), ["spec.versions[0].schema.openAPIV3Schema: Required value"], id="no schema"
        ),
        pytest.param(
            with_names(shortNames=["F"]), [f'spec.names.shortNames[0]: Invalid value: "F": {LABEL}'], id="short name"
        ),
        pytest.param(
            with_names(listKind="Foo"),
            ['spec.names.listKind: Invalid value: "Foo": kind and listKind may not be the same'],
            id="kind of lists",
        ),
        pytest.param(with_names(kind=""), ["spec.names.kind: Required value"], id="no kind"),
    ],
)
def test_spec_is_validated(definition: Object, expected: list[str]) -> None:
    assert errors_of(definition) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {**TEXT, "x-kubernetes-validations": [{"rule": ""}]},
            f"{A}.x-kubernetes-validations[0].rule: Required value: rule is not specified",
            id="empty rule",
        ),
    ],
)
def test_schemas_are_validated(schema: Any, expected: str) -> None:
    assert errors_of(with_field(schema)) == [expected]


@pytest.mark.parametrize(
    ("openapi", "expected"),
    [
        pytest.param({"type": "string"}, f'{AT}.type: Invalid value: "string": must be object at the root', id="root"),
    ],
)
def test_schema_roots_are_validated(openapi: Any, expected: str) -> None:
    assert errors_of(a_definition(versions=[a_version(openapi)])) == [expected]


def test_versions_that_differ_are_complained_about_one_by_one() -> None:
    other = a_version({"type": "string"}, name="v2", storage=False)

    assert errors_of(a_definition(versions=[a_version(), other])) == [
        'spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "string": must be object at the root'
    ]


def test_exactly_one_version_is_stored() -> None:
    both = a_definition(versions=[a_version(), a_version(name="v2")])

    assert "must have exactly one version marked as storage version" in errors_of(both)[0]


def with_rule(**rule: str) -> Object:
    return with_field({**TEXT, "x-kubernetes-validations": [rule]})


@pytest.mark.parametrize(
    ("rule", "field", "problem"),
    [
        pytest.param({"rule": "self +"}, "rule", "unexpected 'end'", id="syntax"),
        pytest.param({"rule": "nope(self)"}, "rule", "undeclared reference to 'nope'", id="function"),
        pytest.param({"rule": "1" + "+1" * 2000 + " == 1"}, "rule", "expression nested too deeply", id="depth"),
        pytest.param(
            {"rule": "true", "messageExpression": "other"},
            "messageExpression",
            "undeclared reference to 'other'",
            id="message",
        ),
    ],
)
def test_rule_that_does_not_compile_is_refused(rule: dict[str, str], field: str, problem: str) -> None:
    (error,) = errors_of(with_rule(**rule))

    assert error.startswith(f"{A}.x-kubernetes-validations[0].{field}: Invalid value: ")
    assert error.endswith(f": compilation failed: {problem}")


def test_rule_that_was_stored_before_it_was_refused_is_tolerated() -> None:
    old = with_rule(rule="nope(self)")

    assert errors_of(with_rule(rule="nope(self)", message="new"), old) == []
    assert len(errors_of(with_rule(rule="other(self)"), old)) == 1


def test_what_stored_objects_depend_on_cannot_change() -> None:
    old = a_definition()
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]

    assert errors_of(a_definition(scope="Cluster"), old) == ['spec.scope: Invalid value: "Cluster": field is immutable']


def test_a_version_that_holds_data_cannot_go() -> None:
    definition = a_definition(versions=[a_version(name="v2")])
    definition["status"]["storedVersions"] = ["v1", "v2"]

    assert errors_of(definition)[0].startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions'
    )


KEYS = ["type", "properties", "items", "default", "allOf", "anyOf", "not", "required", "pattern", "a", "metadata"]
KEYS += ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations", "additionalProperties"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["object", "array", "string", "map", "set", "("]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=80)
@given(openapi=JSON, spec=st.dictionaries(st.sampled_from(["names", "versions", "group", "scope"]), JSON, max_size=2))
def test_no_definition_raises_anything(openapi: Any, spec: Any) -> None:
    found = definition_errors(a_definition(**{"versions": [a_version(openapi)], **spec}))

    assert all(isinstance(error, FieldError) for error in found)
