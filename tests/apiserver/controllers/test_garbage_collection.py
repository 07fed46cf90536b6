"""Owners and dependents: background, foreground, orphan, and names taken again."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import ObjectKey
from watchword.api.resources import CLUSTER_ROLES, CONFIG_MAPS, NAMESPACES, SECRETS
from watchword.apiserver.controllers.owners import Standing, Verdict, judge_dependent

pytestmark = pytest.mark.timeout(20)
SOLID, WAITING, DANGLING, UNKNOWN = Standing.SOLID, Standing.WAITING, Standing.DANGLING, Standing.UNKNOWN


@pytest.mark.parametrize(
    ("standings", "has_dependents", "verdict"),
    [
        pytest.param({}, True, Verdict(), id="nobody owns it"),
        pytest.param({"a": SOLID}, False, Verdict(), id="its owner stays"),
        pytest.param({"a": SOLID, "b": DANGLING}, False, Verdict(strip=frozenset("b")), id="one owner is gone"),
        pytest.param({"a": SOLID, "b": WAITING}, False, Verdict(strip=frozenset("b")), id="one owner is going"),
        pytest.param({"a": DANGLING, "b": DANGLING}, True, Verdict(delete=True), id="all owners are gone"),
        pytest.param({"a": WAITING}, False, Verdict(delete=True), id="its owner waits"),
        pytest.param({"a": WAITING}, True, Verdict(delete=True, foreground=True), id="a chain of owners waits"),
        pytest.param({"a": DANGLING, "b": UNKNOWN}, False, Verdict(), id="nobody can tell"),
    ],
)
def test_judge_dependent(standings: dict[str, Standing], has_dependents: bool, verdict: Verdict) -> None:  # noqa: FBT001
    assert judge_dependent(standings, has_dependents=has_dependents) == verdict


async def test_dependents_follow_their_owner_down_the_chain(world: Any) -> None:
    owner = await world.has(SECRETS, "owner", "default")
    child = await world.has_owned("child", owner)
    await world.has_owned("grandchild", child)

    await world.registry.delete(SECRETS, ObjectKey("default", "owner"))
    await world.settles()

    assert world.names(CONFIG_MAPS, "default") == {"kube-root-ca.crt"}


async def test_dependent_with_another_owner_stays_and_forgets_the_lost_one(world: Any) -> None:
    lost, kept = await world.has(SECRETS, "lost", "default"), await world.has(SECRETS, "kept", "default")
    await world.has_owned("child", lost, kept)

    await world.registry.delete(SECRETS, ObjectKey("default", "lost"))
    await world.settles()

    refs = world.get(CONFIG_MAPS, "child", "default")["metadata"]["ownerReferences"]
    assert [ref["uid"] for ref in refs] == [kept["metadata"]["uid"]]


async def test_owner_of_the_same_name_with_another_uid_does_not_count(world: Any) -> None:
    owner = await world.has(SECRETS, "owner", "default")
    owner["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"

    await world.has_owned("child", owner)

    assert "child" not in world.names(CONFIG_MAPS, "default")


async def test_cluster_scoped_owner_owns_across_namespaces(world: Any) -> None:
    owner = await world.has(CLUSTER_ROLES, "owner", rules=[])
    await world.has_owned("child", owner)
    assert "child" in world.names(CONFIG_MAPS, "default")

    await world.registry.delete(CLUSTER_ROLES, ObjectKey.cluster("owner"))
    await world.settles()

    assert "child" not in world.names(CONFIG_MAPS, "default")


async def test_namespaced_owner_of_a_cluster_scoped_object_is_ignored(world: Any) -> None:
    owner = await world.has(SECRETS, "owner", "default")
    ref = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"]}
    await world.has(NAMESPACES, "child", metadata={"ownerReferences": [ref]})

    await world.registry.delete(SECRETS, ObjectKey("default", "owner"))
    await world.settles()

    assert "child" in world.names(NAMESPACES)


async def test_foreground_owner_waits_for_blocking_dependents(world: Any) -> None:
    owner = await world.has(SECRETS, "owner", "default")
    await world.has_owned("slow", owner, block=True, finalizers=["acme.test/hold"])
    await world.has_owned("quick", owner)

    await world.registry.delete(SECRETS, ObjectKey("default", "owner"), propagation="Foreground")
    await world.settles()
    assert world.names(CONFIG_MAPS, "default") == {"kube-root-ca.crt", "slow"}
    assert "owner" in world.names(SECRETS)

    slow = world.get(CONFIG_MAPS, "slow", "default")
    slow["metadata"]["finalizers"] = []
    await world.registry.update(CONFIG_MAPS, slow)
    await world.settles()
    assert world.names(SECRETS) == set()


async def test_orphaned_dependents_stay_without_the_reference(world: Any) -> None:
    owner = await world.has(SECRETS, "owner", "default")
    await world.has_owned("child", owner, block=True)

    await world.registry.delete(SECRETS, ObjectKey("default", "owner"), propagation="Orphan")
    await world.settles()

    assert world.names(SECRETS) == set()
    assert "ownerReferences" not in world.get(CONFIG_MAPS, "child", "default")["metadata"]


async def test_circle_of_blocking_owners_is_broken(world: Any) -> None:
    first = await world.has(SECRETS, "first", "default")
    second = await world.has_owned("second", first, block=True)
    ref = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "second",
        "uid": second["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    first["metadata"]["ownerReferences"] = [ref]
    await world.registry.update(SECRETS, first)

    await world.registry.delete(SECRETS, ObjectKey("default", "first"), propagation="Foreground")
    await world.settles()

    assert world.names(SECRETS) == set()
    assert "second" not in world.names(CONFIG_MAPS, "default")
