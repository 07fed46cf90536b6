"""Owners and dependents: background, foreground, orphan, and names taken again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_ROLES, CONFIG_MAPS, NAMESPACES, SECRETS
from watchword.apiserver.controllers.garbage_collection import (
    AllKindsWatch,
    DependentDecision,
    GarbageCollector,
    OwnerState,
    OwnerWatch,
    decide_dependent,
)
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.serving.model import ApiError, Service
from watchword.apiserver.serving.object_storage import KindTable
from watchword.apiserver.serving.registry import ObjectRegistry
from watchword.apiserver.store.sqlite import SqliteStore

pytestmark = pytest.mark.timeout(20)
SOLID, WAITING, DANGLING, UNKNOWN = OwnerState.SOLID, OwnerState.WAITING, OwnerState.DANGLING, OwnerState.UNKNOWN


@pytest.mark.parametrize(
    ("standings", "has_dependents", "verdict"),
    [
        pytest.param({}, True, DependentDecision(), id="without owners"),
        pytest.param({"a": SOLID}, False, DependentDecision(), id="its owner stays"),
        pytest.param(
            {"a": SOLID, "b": DANGLING}, False, DependentDecision(strip=frozenset("b")), id="one owner is gone"
        ),
        pytest.param(
            {"a": SOLID, "b": WAITING}, False, DependentDecision(strip=frozenset("b")), id="one owner is going"
        ),
        pytest.param({"a": DANGLING, "b": DANGLING}, True, DependentDecision(delete=True), id="all owners are gone"),
        pytest.param({"a": WAITING}, False, DependentDecision(delete=True), id="its owner waits"),
        pytest.param(
            {"a": WAITING}, True, DependentDecision(delete=True, foreground=True), id="a chain of owners waits"
        ),
        pytest.param({"a": DANGLING, "b": UNKNOWN}, False, DependentDecision(), id="unknown owner"),
    ],
)
def test_decide_dependent(standings: dict[str, OwnerState], has_dependents: bool, verdict: DependentDecision) -> None:  # noqa: FBT001
    assert decide_dependent(standings, has_dependents=has_dependents) == verdict


async def test_dependents_follow_their_owner_down_the_chain(harness: Any) -> None:
    owner = await harness.has(SECRETS, "owner", "default")
    child = await harness.has_owned("child", owner)
    await harness.has_owned("grandchild", child)

    await harness.registry.delete(SECRETS, ObjectKey("default", "owner"))
    await harness.settles()

    assert harness.names(CONFIG_MAPS, "default") == {"kube-root-ca.crt"}


async def test_dependents_are_woken_in_the_order_in_which_they_came(harness: Any) -> None:
    woken: list[str] = []
    watch = OwnerWatch(harness.registry, enqueue=lambda node: woken.append(node.key.name))
    names = [f"child-{number}" for number in range(12)]
    for name in names:
        reference = {"kind": "Secret", "name": "owner", "uid": "owner-uid"}
        metadata = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [reference]}
        watch.changed(CONFIG_MAPS, "ADDED", {"metadata": metadata})
    woken.clear()

    watch.changed(SECRETS, "DELETED", {"metadata": {"name": "owner", "namespace": "default", "uid": "owner-uid"}})

    assert woken == names


@pytest.fixture
async def registry_on_disk(tmp_path: Path) -> AsyncIterator[ObjectRegistry]:
    """A registry whose writes take a moment, and fail when they are large."""
    store = SqliteStore(tmp_path / "data.db", max_bytes=256 * 1024)
    registry = ObjectRegistry(store, KindTable(BUILTINS), now=lambda: datetime.now(UTC), entropy=os.urandom)
    await registry.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster("default")))
    yield registry
    await store.close()


@pytest.mark.real_time
async def test_deletion_that_met_a_write_which_then_failed_is_tried_again(registry_on_disk: ObjectRegistry) -> None:
    registry, writes, gone = registry_on_disk, list[asyncio.Task[Any]](), asyncio.Event()
    owner = await registry.create(SECRETS, SECRETS.manifest(ObjectKey("default", "owner")))
    ref = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = CONFIG_MAPS.manifest(ObjectKey("default", "child"), metadata={"ownerReferences": [ref]})
    too_large = {**await registry.create(CONFIG_MAPS, child), "data": {"a": "x" * 512 * 1024}}

    def write_too(change: str, _: Object) -> None:  # subscribed first: under way when the collector deletes
        if change == "DELETED":
            writes.append(asyncio.create_task(registry.update(CONFIG_MAPS, too_large)))

    registry.subscribe(SECRETS, write_too)
    registry.subscribe(CONFIG_MAPS, lambda change, _: gone.set() if change == "DELETED" else None)
    watch = AllKindsWatch(registry)
    async with running(GarbageCollector(registry, watch), watch):
        await registry.delete(SECRETS, ObjectKey("default", "owner"))
        await asyncio.wait_for(gone.wait(), 10)

    with pytest.raises(ApiError, match="full"):
        await writes[0]


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[None]:
    for service in services:
        await service.start()
    yield
    for service in services:
        await service.stop()


async def test_dependent_with_another_owner_stays_and_forgets_the_lost_one(harness: Any) -> None:
    lost, kept = await harness.has(SECRETS, "lost", "default"), await harness.has(SECRETS, "kept", "default")
    await harness.has_owned("child", lost, kept)

    await harness.registry.delete(SECRETS, ObjectKey("default", "lost"))
    await harness.settles()

    refs = harness.get(CONFIG_MAPS, "child", "default")["metadata"]["ownerReferences"]
    assert [ref["uid"] for ref in refs] == [kept["metadata"]["uid"]]


async def test_owner_of_the_same_name_with_another_uid_does_not_count(harness: Any) -> None:
    owner = await harness.has(SECRETS, "owner", "default")
    owner["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"

    await harness.has_owned("child", owner)

    assert "child" not in harness.names(CONFIG_MAPS, "default")


async def test_cluster_scoped_owner_owns_across_namespaces(harness: Any) -> None:
    owner = await harness.has(CLUSTER_ROLES, "owner", rules=[])
    await harness.has_owned("child", owner)
    assert "child" in harness.names(CONFIG_MAPS, "default")

    await harness.registry.delete(CLUSTER_ROLES, ObjectKey.cluster("owner"))
    await harness.settles()

    assert "child" not in harness.names(CONFIG_MAPS, "default")


async def test_namespaced_owner_of_a_cluster_scoped_object_is_ignored(harness: Any) -> None:
    owner = await harness.has(SECRETS, "owner", "default")
    ref = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"]}
    await harness.has(NAMESPACES, "child", metadata={"ownerReferences": [ref]})

    await harness.registry.delete(SECRETS, ObjectKey("default", "owner"))
    await harness.settles()

    assert "child" in harness.names(NAMESPACES)


async def test_foreground_owner_waits_for_blocking_dependents(harness: Any) -> None:
    owner = await harness.has(SECRETS, "owner", "default")
    await harness.has_owned("slow", owner, block=True, finalizers=["acme.test/hold"])
    await harness.has_owned("quick", owner)

    await harness.registry.delete(SECRETS, ObjectKey("default", "owner"), propagation="Foreground")
    await harness.settles()
    assert harness.names(CONFIG_MAPS, "default") == {"kube-root-ca.crt", "slow"}
    assert "owner" in harness.names(SECRETS)

    slow = harness.get(CONFIG_MAPS, "slow", "default")
    slow["metadata"]["finalizers"] = []
    await harness.registry.update(CONFIG_MAPS, slow)
    await harness.settles()
    assert harness.names(SECRETS) == set()


async def test_orphaned_dependents_stay_without_the_reference(harness: Any) -> None:
    owner = await harness.has(SECRETS, "owner", "default")
    await harness.has_owned("child", owner, block=True)

    await harness.registry.delete(SECRETS, ObjectKey("default", "owner"), propagation="Orphan")
    await harness.settles()

    assert harness.names(SECRETS) == set()
    assert "ownerReferences" not in harness.get(CONFIG_MAPS, "child", "default")["metadata"]


async def test_circle_of_blocking_owners_is_broken(harness: Any) -> None:
    first = await harness.has(SECRETS, "first", "default")
    second = await harness.has_owned("second", first, block=True)
    ref = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "second",
        "uid": second["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    first["metadata"]["ownerReferences"] = [ref]
    await harness.registry.update(SECRETS, first)

    await harness.registry.delete(SECRETS, ObjectKey("default", "first"), propagation="Foreground")
    await harness.settles()

    assert harness.names(SECRETS) == set()
    assert "second" not in harness.names(CONFIG_MAPS, "default")
