"""Two works that name one object: it stays while one of them owns it, and the older one decides what it holds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.work.work_environment import WorkEnvironment

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import APPLIED_MANIFEST_WORKS, CONFIG_MAPS, NAMESPACES, RBAC_GROUP, ROLE_BINDINGS
from watchword.testing.eventually import eventually, is_gone
from watchword.work.objects import choose_oldest


def owners(obj: Object | None) -> set[str]:
    return {row["name"].partition("-")[2] for row in (obj or {})["metadata"].get("ownerReferences") or []}


def applied_message(work: Object) -> str:
    rows = work["status"]["resourceStatus"]["manifests"][0]["conditions"]
    return next(str(row["message"]) for row in rows if row["type"] == "Applied")


def with_strategy(site: WorkEnvironment, name: str, **strategy: Any) -> Object:
    identifier = {"group": "", "resource": "configmaps", "namespace": site.namespace, "name": name}
    return {"manifestConfigs": [{"resourceIdentifier": identifier, "updateStrategy": strategy}]}


@pytest.mark.parametrize(
    ("records", "first"),
    [
        pytest.param([("b", 1), ("a", 2)], "b", id="the older one"),
        pytest.param([("b", 1), ("a", 1)], "a", id="of the same second, by name"),
    ],
)
def test_choose_oldest(records: list[tuple[str, int]], first: str) -> None:
    made = [{"metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:0{at}Z"}} for name, at in records]

    assert choose_oldest(made)["metadata"]["name"] == first


SERVER_SIDE_APPLY = {"type": "ServerSideApply", "serverSideApply": {"force": True}}


@pytest.fixture(params=[{"type": "Update"}, SERVER_SIDE_APPLY], ids=["Update", "ServerSideApply"])
async def sharing(running: WorkEnvironment, request: pytest.FixtureRequest) -> WorkEnvironment:
    """Two works, `a` and `b`, that want the same of one object."""
    config = with_strategy(running, "one", **request.param)
    for name in ("a", "b"):
        await running.has(name, running.config_map("one"), **config)
        await running.applied(name)
    return running


async def test_object_of_two_works_has_both_owners(sharing: WorkEnvironment) -> None:
    found = await sharing.until("one", lambda obj: len(owners(obj)) == 2)

    assert owners(found) == {"a", "b"}


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
async def test_object_of_two_works_goes_with_the_last_of_them(
    sharing: WorkEnvironment, first: str, second: str
) -> None:
    before = await sharing.until("one", lambda obj: len(owners(obj)) == 2)

    await sharing.removes(first)
    left = await sharing.find("one")
    assert (uid_of(left or {}), owners(left)) == (uid_of(before), {second})

    await sharing.removes(second)
    assert await sharing.find("one") is None


async def test_object_that_one_of_two_works_no_longer_names_stays(sharing: WorkEnvironment) -> None:
    before = await sharing.until("one", lambda obj: len(owners(obj)) == 2)

    await sharing.changes("b", sharing.config_map("other"))

    left = await sharing.until("one", lambda obj: owners(obj) == {"a"})
    assert uid_of(left) == uid_of(before)


async def test_namespace_of_two_works_survives_the_younger_one(running: WorkEnvironment) -> None:
    name = running.plane.unique("shared")
    namespace = NAMESPACES.manifest(ObjectKey.cluster(name))
    inside = CONFIG_MAPS.manifest(ObjectKey(name, "precious"), data={"a": "1"})
    for work in ("a", "b"):
        await running.has(work, namespace)
        await running.applied(work)
    await running.client.create(CONFIG_MAPS, inside)

    await running.removes("b")

    assert owners(await running.client.get(NAMESPACES, ObjectKey.cluster(name))) == {"a"}
    assert await running.client.find(CONFIG_MAPS, ObjectKey(name, "precious")) is not None


async def test_older_of_two_works_with_different_content_decides(running: WorkEnvironment) -> None:
    await running.has("a", running.config_map("one", {"a": "of a"}))
    await running.applied("a")

    await running.has("b", running.config_map("one", {"a": "of b"}))
    yielding = await running.says("b", "Applied", "False")

    assert "is applied with other content by the older ManifestWork a: remove" in applied_message(yielding)
    found = await running.until("one", lambda obj: owners(obj) == {"a", "b"})
    assert found["data"] == {"a": "of a"}
    await running.applied("a")


async def test_older_work_that_names_the_object_later_decides(running: WorkEnvironment) -> None:
    await running.has("a", running.config_map("other"))
    await running.applied("a")
    await running.has("b", running.config_map("one", {"a": "of b"}))
    await running.applied("b")

    await running.changes("a", running.config_map("other"), running.config_map("one", {"a": "of a"}))

    yielding = await running.says("b", "Applied", "False")
    assert "older ManifestWork a" in applied_message(yielding)
    found = await running.until("one", lambda obj: obj["data"] == {"a": "of a"})
    assert owners(found) == {"a", "b"}
    await running.applied("a")


async def test_two_works_with_different_content_come_to_rest(running: WorkEnvironment) -> None:
    await running.has("a", running.config_map("one", {"a": "of a"}))
    await running.applied("a")
    await running.has("b", running.config_map("one", {"a": "of b"}))
    await running.says("b", "Applied", "False")
    before = await running.until("one", lambda obj: owners(obj) == {"a", "b"})

    await running.has("c", running.config_map("another"))
    await running.applied("c")
    await running.has("d", running.config_map("third"))
    await running.applied("d")

    after = await running.find("one")
    assert (after or {})["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_younger_work_takes_over_when_the_older_one_goes(running: WorkEnvironment) -> None:
    await running.has("a", running.config_map("one", {"a": "of a"}))
    await running.applied("a")
    await running.has("b", running.config_map("one", {"a": "of b"}))
    await running.says("b", "Applied", "False")
    before = await running.until("one", lambda obj: owners(obj) == {"a", "b"})

    await running.removes("a")

    await running.applied("b")
    found = await running.until("one", lambda obj: obj["data"] == {"a": "of b"})
    assert (uid_of(found), owners(found)) == (uid_of(before), {"b"})


async def test_changed_content_of_the_older_work_keeps_both_owners(sharing: WorkEnvironment) -> None:
    await sharing.until("one", lambda obj: len(owners(obj)) == 2)

    await sharing.changes("a", sharing.config_map("one", {"a": "2"}))
    await sharing.applied("a")

    found = await sharing.until("one", lambda obj: obj["data"] == {"a": "2"})
    assert owners(found) == {"a", "b"}


async def test_work_with_a_field_manager_of_its_own_adds_to_the_object_of_another(running: WorkEnvironment) -> None:
    await running.has("a", running.config_map("one", {"a": "of a"}))
    await running.applied("a")
    own = {"type": "ServerSideApply", "serverSideApply": {"fieldManager": "work-agent-b", "force": True}}

    await running.has("b", running.config_map("one", {"b": "of b"}), **with_strategy(running, "one", **own))
    await running.applied("b")
    found = await running.until("one", lambda obj: len(owners(obj)) == 2)
    assert found["data"] == {"a": "of a", "b": "of b"}

    await running.changes("b", running.config_map("one", {"a": "of b"}))
    refused = await running.says("b", "Applied", "False")
    assert "older ManifestWork a" in applied_message(refused)


async def test_work_that_only_creates_does_not_decide(running: WorkEnvironment) -> None:
    create_only = with_strategy(running, "one", type="CreateOnly")
    await running.has("a", running.config_map("one", {"a": "of a"}), **create_only)
    await running.applied("a")

    await running.has("b", running.config_map("one", {"a": "of b"}))
    await running.applied("b")

    found = await running.until("one", lambda obj: obj["data"] == {"a": "of b"})
    assert owners(found) == {"a", "b"}


async def test_work_whose_executor_may_nothing_neither_decides_nor_keeps(running: WorkEnvironment) -> None:
    account = {"namespace": running.namespace, "name": "powerless"}
    powerless = {"executor": {"subject": {"type": "ServiceAccount", "serviceAccount": account}}}
    await running.has("a", running.config_map("one", {"a": "of a"}), **powerless)
    await running.says("a", "Applied", "False")

    await running.has("b", running.config_map("one", {"a": "of b"}))
    await running.applied("b")
    await running.removes("b")

    await eventually(running.client, CONFIG_MAPS, ObjectKey(running.namespace, "one"), is_gone)


async def test_record_of_a_hub_that_is_no_longer_served_does_not_decide(site: WorkEnvironment) -> None:
    site.start()
    await site.has("a", site.config_map("one", {"a": "of the old hub"}))
    await site.applied("a")
    await site.stop()
    old, site.server = site.record_key("a"), "https://another-hub.test:6443"
    site.start()

    await site.changes("a", site.config_map("one", {"a": "of the new hub"}))
    await site.applied("a")

    found = await site.until("one", lambda obj: obj["data"] == {"a": "of the new hub"})
    assert len(found["metadata"]["ownerReferences"]) == 2
    assert await site.client.find(APPLIED_MANIFEST_WORKS, old) is not None


async def test_binding_of_two_works_that_is_replaced_keeps_both_owners(running: WorkEnvironment) -> None:
    def binding(role: str) -> Object:
        reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}
        return ROLE_BINDINGS.manifest(ObjectKey(running.namespace, "b"), roleRef=reference, subjects=[])

    for name in ("a", "b"):
        await running.has(name, binding("view"))
        await running.applied(name)

    await running.changes("a", binding("edit"))
    await running.says("b", "Applied", "False")

    found = await running.until("b", lambda obj: len(owners(obj)) == 2, ROLE_BINDINGS)
    assert found["roleRef"]["name"] == "edit"
