"""Custom kinds take part: they own, are owned, and end with their namespace."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.timeout(30)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROCKETS = "/apis/acme.test/v1/namespaces/{}/rockets"
SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
ROCKET = {
    "metadata": {"name": "rockets.acme.test"},
    "spec": {
        "group": "acme.test",
        "scope": "Namespaced",
        "names": {"plural": "rockets", "singular": "rocket", "kind": "Rocket", "listKind": "RocketList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}],
    },
}


async def _rocket(secured_api: Any, name: str, namespace: str = "default") -> Any:
    body = {"apiVersion": "acme.test/v1", "kind": "Rocket", "metadata": {"name": name}}
    code, made = await secured_api.call("POST", ROCKETS.format(namespace), body)
    assert code == 201, made
    return made


async def test_custom_object_owns_what_it_made(secured_api: Any) -> None:
    await secured_api.call("POST", CRDS, ROCKET)
    owner = await _rocket(secured_api, "owner")
    ref = {"apiVersion": "acme.test/v1", "kind": "Rocket", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = {"metadata": {"name": "child", "ownerReferences": [ref]}}
    await secured_api.call("POST", "/api/v1/namespaces/default/configmaps", child)
    assert (await secured_api.call("GET", "/api/v1/namespaces/default/configmaps/child"))[0] == 200

    await secured_api.call("DELETE", ROCKETS.format("default") + "/owner")

    assert (await secured_api.call("GET", "/api/v1/namespaces/default/configmaps/child"))[0] == 404


async def test_custom_objects_end_with_their_namespace(secured_api: Any) -> None:
    await secured_api.call("POST", CRDS, ROCKET)
    await secured_api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    await _rocket(secured_api, "r", "team")

    await secured_api.call("DELETE", "/api/v1/namespaces/team")

    assert (await secured_api.call("GET", "/api/v1/namespaces/team"))[0] == 404
    _, left = await secured_api.call("GET", "/apis/acme.test/v1/rockets")
    assert left["items"] == []


async def test_dependent_of_a_kind_that_is_not_served_stays_until_it_is_known(secured_api: Any) -> None:
    ref = {"apiVersion": "acme.test/v1", "kind": "Rocket", "name": "gone", "uid": "0"}
    child = {"metadata": {"name": "child", "ownerReferences": [ref]}}
    await secured_api.call("POST", "/api/v1/namespaces/default/configmaps", child)
    assert (await secured_api.call("GET", "/api/v1/namespaces/default/configmaps/child"))[0] == 200

    await secured_api.call("POST", CRDS, ROCKET)

    assert (await secured_api.call("GET", "/api/v1/namespaces/default/configmaps/child"))[0] == 404
