"""Kinds and objects that a process needs are there before it works, and are left alone when they are right."""

from __future__ import annotations

from copy import deepcopy

import pytest

from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_CLAIMS, CUSTOM_RESOURCE_DEFINITIONS
from watchword.runtime.diff import Comparison, choose_changes
from watchword.runtime.errors import NotServed
from watchword.runtime.manifests import apply_manifests, establish_crds, is_own_definition
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

MANAGER = "test-declaring"
DEFINITIONS = {definition["metadata"]["name"]: definition for definition in (*HUB_CRDS, *MANAGED_CRDS)}


def a_kind(name: str, *properties: str) -> Object:
    """Return the definition of a kind whose spec has these properties."""
    spec = {"type": "object", "properties": {field: {"type": "string"} for field in properties}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": name, "singular": name, "kind": "Thing", "listKind": "ThingList"}
    return CUSTOM_RESOURCE_DEFINITIONS.manifest(
        ObjectKey.cluster(f"{name}.declaring.test"),
        spec={"group": "declaring.test", "names": names, "scope": "Cluster", "versions": [version]},
    )


async def remove(plane: Plane, definition: Object) -> None:
    """Delete a definition and wait until its name is free for the next test."""
    await plane.client().delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition))
    await eventually(plane.client(), CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition), is_gone)


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
async def test_a_server_keeps_every_definition_as_it_was_declared(plane: Plane, name: str) -> None:
    await establish_crds(plane.client(), [DEFINITIONS[name]], manager=MANAGER)

    found = await plane.client().get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.cluster(name))

    assert (
        choose_changes(found, DEFINITIONS[name], Comparison.EXACT_LISTS) is None
    )  # otherwise it would be applied again at every start


async def test_what_is_as_wanted_is_not_written_again(plane: Plane) -> None:
    definition = DEFINITIONS[CLUSTER_CLAIMS.group_resource]
    claim = CLUSTER_CLAIMS.manifest(ObjectKey.cluster("declared"), spec={"value": "once"})
    await apply_manifests(
        plane.client(), [(CLUSTER_CLAIMS, claim), (CUSTOM_RESOURCE_DEFINITIONS, definition)], manager=MANAGER
    )
    before = await plane.client().get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition))

    await establish_crds(plane.client(), [definition], manager="somebody-else")

    assert await plane.client().get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition)) == before
    assert (await plane.client().get(CLUSTER_CLAIMS, ObjectKey.of(claim)))["spec"] == {"value": "once"}


async def test_a_field_that_a_newer_version_no_longer_has_goes(plane: Plane) -> None:
    client = plane.client()
    await establish_crds(client, [a_kind("things", "kept", "dropped")], manager=MANAGER)

    await establish_crds(client, [a_kind("things", "kept")], manager=MANAGER)

    found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.cluster("things.declaring.test"))
    assert found["spec"]["versions"] == a_kind("things", "kept")["spec"]["versions"]
    await remove(plane, found)


async def test_version_that_another_system_stored_objects_in_stays(plane: Plane) -> None:
    client, ours = plane.client(), a_kind("things", "ours")
    await establish_crds(client, [ours], manager=MANAGER)
    theirs = deepcopy(ours)
    (first,) = theirs["spec"]["versions"]
    theirs["spec"]["versions"] = [{**first, "storage": False}, {**first, "name": "v2"}]
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS, theirs, manager="another-system", force=True)

    for _ in range(2):
        await establish_crds(client, [ours], manager=MANAGER)

    found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(ours))
    assert [(row["name"], row["storage"]) for row in found["spec"]["versions"]] == [("v1", True), ("v2", False)]
    assert found["status"]["storedVersions"] == ["v1", "v2"]
    await remove(plane, found)


async def test_the_definition_of_another_system_is_left_alone_when_it_will_do(plane: Plane) -> None:
    client, theirs = plane.client(), a_kind("things", "theirs")
    await establish_crds(client, [theirs], manager="another-system")
    before = await client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(theirs))

    await establish_crds(client, [a_kind("things", "ours")], manager=MANAGER)

    assert await client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(theirs)) == before
    await remove(plane, theirs)


async def test_the_definition_of_another_system_that_lacks_our_version_is_named(plane: Plane) -> None:
    client, theirs, ours = plane.client(), a_kind("things"), a_kind("things")
    ours["spec"]["versions"][0]["name"] = "v2"
    await establish_crds(client, [theirs], manager="another-system")

    with pytest.raises(NotServed, match=r"things\.declaring\.test was installed by another system .* serve v2"):
        await establish_crds(client, [ours], manager=MANAGER)

    await remove(plane, theirs)


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_every_definition_of_ours_is_known_by_its_label(name: str) -> None:
    assert is_own_definition(DEFINITIONS[name], MANAGER)


@pytest.mark.planes("embedded")  # where half a minute passes at once
async def test_a_kind_that_is_not_served_in_time_is_named(plane: Plane) -> None:
    client = plane.client()
    await establish_crds(client, [a_kind("things")], manager=MANAGER)
    same_kind = a_kind("others")

    with pytest.raises(NotServed, match=r"kubectl describe crd others\.declaring\.test"):
        await establish_crds(client, [same_kind], manager=MANAGER)

    for definition in (a_kind("things"), same_kind):
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition))


@pytest.mark.planes("embedded")
async def test_a_kind_with_other_names_is_applied_again(plane: Plane) -> None:
    client, renamed = plane.client(), deepcopy(a_kind("things"))
    renamed["spec"]["names"]["shortNames"] = ["th"]
    await establish_crds(client, [a_kind("things")], manager=MANAGER)

    await establish_crds(client, [renamed], manager=MANAGER)

    stored = await client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(renamed))
    assert stored["spec"]["names"]["shortNames"] == ["th"]
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(renamed))
