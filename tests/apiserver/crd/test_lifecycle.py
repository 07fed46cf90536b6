"""From a definition to its objects and their removal, through the complete control plane."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.apiserver.conftest import SecuredApi
from tests.apiserver.crd.crd_manifests import a_definition, a_version, with_field

from watchword.api.meta import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/ex.com/v1/namespaces/default/foos"
SPEC = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {"size": {"type": "integer", "maximum": 5}, "colour": {"type": "string", "default": "red"}},
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def a_foo(name: str = "a", **fields: Any) -> Object:
    return {"apiVersion": "ex.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": {"size": 1}, **fields}


@pytest.fixture
async def foos(secured_api: SecuredApi) -> SecuredApi:
    """A control plane that serves Foos with a status."""
    await secured_api.call("POST", CRDS, a_definition(versions=[a_version(SPEC, subresources={"status": {}})]))
    return secured_api


async def test_a_kind_is_served_as_soon_as_its_definition_is_stored(secured_api: SecuredApi) -> None:
    created = await secured_api.send(
        "POST", CRDS, a_definition(), headers={"Authorization": "Bearer admin-of-this-instance"}
    )
    status, _ = await secured_api.call(
        "POST", FOOS, {"apiVersion": "ex.com/v1", "kind": "Foo", "metadata": {"name": "a"}}
    )

    assert (created.status, status) == (201, 201)


async def test_definition_gets_the_established_condition(foos: SecuredApi) -> None:
    _, definition = await foos.call("GET", f"{CRDS}/foos.ex.com")

    conditions = {row["type"]: row["status"] for row in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert definition["status"]["acceptedNames"]["listKind"] == "FooList"
    assert definition["status"]["storedVersions"] == ["v1"]


async def test_objects_are_pruned_defaulted_and_validated(foos: SecuredApi) -> None:
    _, stored = await foos.call("POST", FOOS, a_foo(odd=1, status={"phase": "mine"}))
    code, refused = await foos.call("POST", FOOS, a_foo("b", spec={"size": 9}))

    assert stored["spec"] == {"size": 1, "colour": "red"}
    assert "odd" not in stored
    assert "status" not in stored
    assert code == 422
    assert refused["message"] == (
        'Foo.ex.com "b" is invalid: spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5'
    )


async def test_status_has_an_endpoint_of_its_own(foos: SecuredApi) -> None:
    _, foo = await foos.call("POST", FOOS, a_foo())
    _, changed = await foos.call("PUT", f"{FOOS}/a/status", {**foo, "spec": {"size": 3}, "status": {"phase": "Up"}})

    assert (changed["spec"]["size"], changed["status"]) == (1, {"phase": "Up"})
    assert changed["metadata"]["generation"] == 1


async def test_a_bad_definition_is_refused(secured_api: SecuredApi) -> None:
    code, refused = await secured_api.call("POST", CRDS, with_field({"type": "list"}))

    assert code == 422
    assert refused["details"]["causes"][0]["field"] == "spec.validation.openAPIV3Schema.properties[a].type"


async def test_a_new_version_is_served_and_the_old_one_stays(foos: SecuredApi) -> None:
    await foos.call("POST", FOOS, a_foo())
    _, definition = await foos.call("GET", f"{CRDS}/foos.ex.com")
    versions = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**versions[0], "storage": False}, {**versions[0], "name": "v2"}]
    await foos.call("PUT", f"{CRDS}/foos.ex.com", definition)

    _, foo = await foos.call("GET", "/apis/ex.com/v2/namespaces/default/foos/a")
    _, definition = await foos.call("GET", f"{CRDS}/foos.ex.com")

    assert (foo["apiVersion"], foo["spec"]["size"]) == ("ex.com/v2", 1)
    assert definition["status"]["storedVersions"] == ["v1", "v2"]


async def test_a_definition_takes_its_objects_along(foos: SecuredApi) -> None:
    await foos.call("POST", FOOS, a_foo())
    code, deleting = await foos.call("DELETE", f"{CRDS}/foos.ex.com")

    assert code == 200
    assert deleting["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert (await foos.call("GET", f"{CRDS}/foos.ex.com"))[0] == 404
    assert (await foos.call("GET", FOOS))[0] == 404


async def test_a_definition_waits_for_the_finalizers_of_its_objects(foos: SecuredApi) -> None:
    await foos.call("POST", FOOS, {**a_foo(), "metadata": {"name": "a", "finalizers": ["ex.com/wait"]}})
    await foos.call("DELETE", f"{CRDS}/foos.ex.com")

    code, refused = await foos.call("POST", FOOS, a_foo("b"))
    assert (code, refused["reason"]) == (403, "Forbidden")
    _, foo = await foos.call("GET", f"{FOOS}/a")
    await foos.call("PUT", f"{FOOS}/a", {**foo, "metadata": {**foo["metadata"], "finalizers": []}})
    await asyncio.sleep(1)  # virtual: the next look at what is left

    assert (await foos.call("GET", f"{CRDS}/foos.ex.com"))[0] == 404


async def test_names_in_use_are_not_given_twice(foos: SecuredApi) -> None:
    rival = a_definition(names={"plural": "bars", "singular": "bar", "kind": "Foo", "listKind": "BarList"})
    await foos.call("POST", CRDS, {**rival, "metadata": {"name": "bars.ex.com"}})

    _, definition = await foos.call("GET", f"{CRDS}/bars.ex.com")
    conditions = {row["type"]: (row["status"], row["reason"]) for row in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": ("False", "KindConflict"), "Established": ("False", "NotAccepted")}
    assert (await foos.call("GET", "/apis/ex.com/v1/bars"))[0] == 404

    await foos.call("DELETE", f"{CRDS}/foos.ex.com")
    assert (await foos.call("GET", "/apis/ex.com/v1/bars"))[0] == 200


async def test_metadata_of_a_wrong_type_is_refused_as_a_typed_server_does(foos: SecuredApi) -> None:
    code, refused = await foos.call("POST", FOOS, {**a_foo(), "metadata": {"name": "a", "labels": {"l": 1}}})

    assert code == 400
    assert refused["message"] == (
        'Foo in version "v1" cannot be handled as a Foo: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    )


async def test_empty_managed_fields_reset_the_managers(foos: SecuredApi) -> None:
    _, foo = await foos.call("POST", FOOS, a_foo())
    metadata = {**foo["metadata"], "managedFields": []}
    _, changed = await foos.call("PUT", f"{FOOS}/a", {**foo, "metadata": metadata, "spec": {"size": 2}})

    assert "managedFields" not in changed["metadata"]


async def test_a_finalizer_without_a_domain_is_warned_about(foos: SecuredApi) -> None:
    odd = {**a_foo(), "metadata": {"name": "a", "finalizers": ["mine"]}}
    answer = await foos.send("POST", FOOS, odd, headers={"Authorization": "Bearer admin-of-this-instance"})

    assert "prefer a domain-qualified finalizer name" in (answer.header("Warning") or "")


async def test_hint_at_rules_that_were_not_checked_comes_last_whatever_a_value_says(secured_api: SecuredApi) -> None:
    rules = {"x-kubernetes-validations": [{"rule": "self.a == self.a"}]}
    of_spec = {"type": "object", "properties": {"a": {"type": "string", "enum": ["red"]}}, **rules}
    version = a_version({"type": "object", "properties": {"spec": of_spec}})
    await secured_api.call("POST", CRDS, a_definition(versions=[version]))

    metadata, spec = {"name": "a", "labels": {"-": "x"}}, {"a": "some validation rules were not checked"}
    _, refused = await secured_api.call("POST", FOOS, {**a_foo(), "metadata": metadata, "spec": spec})

    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec.a", "metadata.labels", "<nil>"]
