"""Stored custom objects follow their definition: new defaults, dropped fields, other versions."""

from __future__ import annotations

from typing import Any

import pytest

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1, V2 = "/apis/example.com/v1/things", "/apis/example.com/v2/things"
MERGE = {"Content-Type": "application/merge-patch+json"}


def version(name: str, *, storage: bool, **fields: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, **fields}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": "things", "kind": "Thing"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": list(versions)},
    }


@pytest.fixture
async def things(api: Any) -> Any:
    old = definition(version("v1", storage=True, fading={"type": "string"}))
    assert (await api.send("POST", DEFINITIONS, old)).status == 201
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    made = await api.send("POST", V1, {**body, "spec": {"size": 1, "fading": "x"}})
    assert made.status == 201
    return api


async def test_a_new_default_shows_on_objects_stored_before(things: Any) -> None:
    new = version("v1", storage=True, colour={"type": "string", "default": "red"}, fading={"type": "string"})
    await things.send("PATCH", f"{DEFINITIONS}/things.example.com", {"spec": {"versions": [new]}}, headers=MERGE)

    found = await things.ask("GET", f"{V1}/a")
    (listed,) = (await things.ask("GET", V1))["items"]

    assert found["spec"] == listed["spec"] == {"size": 1, "fading": "x", "colour": "red"}


async def test_a_field_the_schema_dropped_is_no_longer_shown(things: Any) -> None:
    new = version("v1", storage=True)
    await things.send("PATCH", f"{DEFINITIONS}/things.example.com", {"spec": {"versions": [new]}}, headers=MERGE)

    assert (await things.ask("GET", f"{V1}/a"))["spec"] == {"size": 1}


async def test_another_version_shows_the_same_object_under_its_own_name(things: Any) -> None:
    versions = [version("v1", storage=False), version("v2", storage=True)]
    await things.send("PATCH", f"{DEFINITIONS}/things.example.com", {"spec": {"versions": versions}}, headers=MERGE)
    await things.send("PATCH", f"{V2}/a", {"spec": {"size": 2}}, headers=MERGE)

    first, second = await things.ask("GET", f"{V1}/a"), await things.ask("GET", f"{V2}/a")

    assert (first["apiVersion"], second["apiVersion"]) == ("example.com/v1", "example.com/v2")
    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    assert first["spec"] == second["spec"] == {"size": 2}
