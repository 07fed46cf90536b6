"""The agent removes objects that a work no longer contains, and no others."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.work.work_environment import WorkEnvironment

from watchword.api.meta import Object, ObjectKey, finalizers_of
from watchword.api.names import Finalizer
from watchword.api.resources import APPLIED_MANIFEST_WORKS, CONFIG_MAPS, MANIFEST_WORKS
from watchword.testing.eventually import eventually, is_gone
from watchword.work.applied_work_store import read_applied_resources

ORPHAN = {"propagationPolicy": "Orphan"}


def keeping(*names: str, namespace: str) -> Object:
    rules = [{"group": "", "resource": "configmaps", "namespace": namespace, "name": name} for name in names]
    return {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}}


async def gone(site: WorkEnvironment, name: str, *, within: float = 60) -> None:
    await eventually(site.client, CONFIG_MAPS, ObjectKey(site.namespace, name), is_gone, within=within)


def owners(obj: Object | None) -> list[str]:
    return [row["name"] for row in (obj or {})["metadata"].get("ownerReferences") or []]


async def test_a_deleted_work_takes_its_objects_and_its_record_along(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"), running.config_map("two"))
    work = await running.applied("w")
    assert Finalizer.MANIFEST_WORK in finalizers_of(work)
    record = await running.record("w")
    assert [(one.name, bool(one.uid)) for one in read_applied_resources(record or {})] == [("one", True), ("two", True)]

    await running.removes("w")

    assert await running.find("one") is None
    assert await running.find("two") is None
    assert await running.record("w") is None


async def test_what_a_work_no_longer_names_is_removed(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"), running.config_map("two"))
    await running.applied("w")

    await running.changes("w", running.config_map("two"))

    await gone(running, "one")
    assert await running.find("two") is not None


async def test_nothing_is_removed_while_a_manifest_may_still_mean_it(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"))
    await running.applied("w")
    unknown = {"apiVersion": "later.example.org/v1", "kind": "Later", "metadata": {"name": "x"}}

    await running.changes("w", unknown)
    await running.says("w", "Applied", "False")

    assert await running.find("one") is not None


async def test_an_object_with_another_owner_only_loses_ours(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"))
    await running.has("x", running.config_map("two"))
    await running.applied("w")
    await running.applied("x")
    other = (await running.record("x") or {})["metadata"]
    reference = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork"}
    theirs = {**reference, "name": other["name"], "uid": other["uid"]}
    ours = (await running.find("one") or {})["metadata"]["ownerReferences"]
    patch = {"metadata": {"ownerReferences": [*ours, theirs]}}
    await running.client.patch(CONFIG_MAPS, ObjectKey(running.namespace, "one"), patch)

    await running.removes("w")

    assert owners(await running.find("one")) == [other["name"]]


async def test_object_of_the_same_name_by_another_owner_survives(site: WorkEnvironment) -> None:
    site.start()
    await site.has("w", site.config_map("one"))
    await site.applied("w")
    await site.stop()
    key = ObjectKey(site.namespace, "one")
    await site.client.delete(CONFIG_MAPS, key)
    await site.client.create(CONFIG_MAPS, site.config_map("one", {"a": "theirs"}))
    await site.client.delete(MANIFEST_WORKS, ObjectKey(site.cluster, "w"))

    site.start()
    await eventually(site.client, MANIFEST_WORKS, ObjectKey(site.cluster, "w"), is_gone)

    assert (await site.find("one") or {})["data"] == {"a": "theirs"}


@pytest.mark.parametrize("together", [pytest.param(False, id="wished before"), pytest.param(True, id="wished with it")])
async def test_orphans_outlive_their_work(site: WorkEnvironment, *, together: bool) -> None:
    site.start()
    await site.has("w", site.config_map("one"), **({} if together else {"deleteOption": ORPHAN}))
    await site.applied("w")
    await site.stop()
    if together:
        await site.client.patch(MANIFEST_WORKS, ObjectKey(site.cluster, "w"), {"spec": {"deleteOption": ORPHAN}})
    await site.client.delete(MANIFEST_WORKS, ObjectKey(site.cluster, "w"))
    site.start()

    await eventually(site.client, MANIFEST_WORKS, ObjectKey(site.cluster, "w"), is_gone)

    assert owners(await site.find("one")) == []


async def test_chosen_orphans_outlive_their_work(running: WorkEnvironment) -> None:
    option = keeping("one", namespace=running.namespace)
    await running.has("w", running.config_map("one"), running.config_map("two"), deleteOption=option)
    await running.applied("w")

    await running.removes("w")

    assert await running.find("one") is not None
    assert await running.find("two") is None


async def test_deleted_record_is_recreated_completely(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"))
    await running.applied("w")
    first = await running.record("w") or {}

    await running.client.delete(APPLIED_MANIFEST_WORKS, running.record_key("w"))

    await eventually(
        running.client,
        APPLIED_MANIFEST_WORKS,
        running.record_key("w"),
        lambda obj: (
            obj is not None and obj["metadata"]["uid"] != first["metadata"]["uid"] and bool(read_applied_resources(obj))
        ),
    )
    await running.until("one", lambda obj: owners(obj) == [running.record_key("w").name])


async def forget(site: WorkEnvironment, name: str) -> None:
    """Let a work vanish from the hub as if it had been restored from a backup without it."""
    key = ObjectKey(site.cluster, name)
    await site.client.patch(MANIFEST_WORKS, key, {"metadata": {"finalizers": None}})
    await site.client.delete(MANIFEST_WORKS, key)


@pytest.mark.planes("embedded")  # an hour has to pass
async def test_a_work_that_vanished_is_evicted_after_the_grace_period_and_not_before(site: WorkEnvironment) -> None:
    site.start(eviction_grace=timedelta(hours=1))
    await site.has("w", site.config_map("one"))
    await site.applied("w")
    await site.stop()
    await forget(site, "w")

    site.start(eviction_grace=timedelta(hours=1))
    await asyncio.sleep(3590)
    assert await site.find("one") is not None
    await gone(site, "one")

    await eventually(site.client, APPLIED_MANIFEST_WORKS, site.record_key("w"), is_gone)


@pytest.mark.planes("embedded")  # an hour has to pass
async def test_a_work_that_comes_back_in_time_is_not_evicted(site: WorkEnvironment) -> None:
    site.start(eviction_grace=timedelta(hours=1))
    await site.has("w", site.config_map("one"))
    await site.applied("w")
    first = await site.find("one") or {}
    await site.stop()
    await forget(site, "w")
    site.start(eviction_grace=timedelta(hours=1))
    await asyncio.sleep(1800)

    await site.has("w", site.config_map("one"))
    await asyncio.sleep(7200)

    assert (await site.find("one") or {})["metadata"]["uid"] == first["metadata"]["uid"]
    assert "evictionStartTime" not in (await site.record("w") or {})["status"]


async def test_after_a_move_to_another_hub_the_works_of_the_old_one_go(site: WorkEnvironment) -> None:
    site.start(eviction_grace=timedelta(seconds=2))
    await site.has("w", site.config_map("one"))
    await site.has("shared", site.config_map("both"))
    await site.applied("w")
    await site.applied("shared")
    old = site.record_key("shared")
    await site.stop()
    await forget(site, "w")

    site.server = "https://elsewhere.test"
    site.start(eviction_grace=timedelta(seconds=2))

    await gone(site, "one")
    await eventually(site.client, APPLIED_MANIFEST_WORKS, old, is_gone)
    assert owners(await site.find("both")) == [site.record_key("shared").name]


async def test_records_of_another_agent_are_left_alone(site: WorkEnvironment) -> None:
    spec: dict[str, Any] = {"hubHash": "h", "agentID": f"{site.identity}-of-another-hub", "manifestWorkName": "w"}
    key = ObjectKey.cluster(site.plane.unique("theirs"))
    metadata = {"finalizers": [Finalizer.APPLIED_WORK]}
    await site.client.create(APPLIED_MANIFEST_WORKS, APPLIED_MANIFEST_WORKS.manifest(key, metadata=metadata, spec=spec))

    site.start(eviction_grace=timedelta(0))
    await site.has("w", site.config_map("one"))
    await site.applied("w")

    found = await site.client.get(APPLIED_MANIFEST_WORKS, key)
    assert "deletionTimestamp" not in found["metadata"]
    assert "status" not in found
