"""The agent applies the manifests of a work and reverts changes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.leak_search import Canary
from tests.work.work_environment import WorkEnvironment

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    RBAC_GROUP,
    ROLE_BINDINGS,
    SECRETS,
)


def config(name: str, namespace: str, **strategy: Any) -> Object:
    identifier = {"group": "", "resource": "configmaps", "namespace": namespace, "name": name}
    return {"resourceIdentifier": identifier, "updateStrategy": strategy}


def read_applied_resources(work: Object) -> list[str]:
    """Return the reason of each manifest's Applied condition, in the order of the manifests."""
    rows = work["status"]["resourceStatus"]["manifests"]
    return [next(c["reason"] for c in row["conditions"] if c["type"] == "Applied") for row in rows]


def messages_in(work: Object) -> list[str]:
    rows = work["status"]["resourceStatus"]["manifests"]
    return [next(c["message"] for c in row["conditions"] if c["type"] == "Applied") for row in rows]


async def test_work_creates_its_objects_and_reports_them(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"), running.config_map("two"))

    work = await running.applied("w")

    assert [(await running.find(name) or {}).get("data") for name in ("one", "two")] == [{"a": "1"}, {"a": "1"}]
    rows = work["status"]["resourceStatus"]["manifests"]
    assert [row["resourceMeta"]["name"] for row in rows] == ["one", "two"]
    assert {c["type"]: (c["status"], c["reason"]) for c in rows[0]["conditions"]} == {
        "Applied": ("True", "AppliedManifestComplete"),
        "Available": ("True", "ResourceAvailable"),
        "StatusFeedbackSynced": ("True", "NoStatusFeedbackSynced"),
    }
    available = find_condition(work, "Available")
    assert available is not None
    assert available.reason == "ResourcesAvailable"


async def test_hostile_manifests_fail_one_by_one_and_the_others_go_on(running: WorkEnvironment) -> None:
    good = running.config_map("good")
    namespace = running.namespace
    hostile = [
        {**good, "metadata": {"namespace": namespace}},
        {**good, "metadata": {"namespace": namespace, "generateName": "x-"}},
        {**good, "metadata": {"name": "nowhere"}},
        {**good, "metadata": {"name": "Bad_Name!", "namespace": namespace}},
        {"apiVersion": "no.such.group/v1", "kind": "Nothing", "metadata": {"name": "x"}},
        good,
    ]
    await running.has("w", *hostile, good)

    work = await running.says("w", "Applied", "False")

    assert await running.find("good") is not None
    assert read_applied_resources(work) == [
        *["AppliedManifestFailed"] * 5,
        "AppliedManifestComplete",
        "AppliedManifestFailed",
    ]
    assert messages_in(work)[6] == "the same object is manifest 5 of this work already"
    assert "invalid" in messages_in(work)[3].lower()


async def test_drift_on_the_cluster_is_reverted_immediately(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one", {"a": "1"}))
    await running.applied("w")

    patch = {"data": {"a": "2", "foreign": "x"}, "metadata": {"labels": {"foreign": "y"}}}
    await running.client.patch(CONFIG_MAPS, ObjectKey(running.namespace, "one"), patch)

    repaired = await running.until("one", lambda obj: obj["data"]["a"] == "1", within=10)
    assert repaired["data"]["foreign"] == "x"
    assert repaired["metadata"]["labels"] == {"foreign": "y"}


async def test_object_deleted_on_the_cluster_is_recreated_immediately(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"))
    await running.applied("w")
    first = await running.until("one", lambda _: True)

    await running.client.delete(CONFIG_MAPS, ObjectKey(running.namespace, "one"))

    await running.until("one", lambda obj: obj["metadata"]["uid"] != first["metadata"]["uid"], within=10)


async def test_fields_removed_from_a_work_are_removed_and_fields_of_others_stay(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one", {"a": "1", "b": "2"}, labels={"ours": "x", "also": "x"}))
    await running.applied("w")
    patch = {"data": {"foreign": "3"}, "metadata": {"labels": {"foreign": "y"}}}
    await running.client.patch(CONFIG_MAPS, ObjectKey(running.namespace, "one"), patch)

    await running.changes("w", running.config_map("one", {"a": "1"}, labels={"ours": "x"}))

    left = await running.until("one", lambda obj: "b" not in obj["data"])
    assert left["data"] == {"a": "1", "foreign": "3"}
    assert left["metadata"]["labels"] == {"ours": "x", "foreign": "y"}


async def test_an_object_that_is_only_created_is_left_to_the_cluster(running: WorkEnvironment) -> None:
    only = [config("one", running.namespace, type="CreateOnly")]
    await running.has("w", running.config_map("one"), manifestConfigs=only)
    await running.applied("w")
    await running.client.patch(CONFIG_MAPS, ObjectKey(running.namespace, "one"), {"data": {"a": "mine"}})

    await running.changes("w", running.config_map("one", {"a": "2"}), running.config_map("two"))
    await running.applied("w")

    assert (await running.find("one") or {})["data"] == {"a": "mine"}


async def test_an_object_that_is_only_read_is_never_written(running: WorkEnvironment) -> None:
    only = [config("one", running.namespace, type="ReadOnly")]
    await running.has("w", running.config_map("one"), manifestConfigs=only)
    work = await running.says("w", "Available", "False")
    assert read_applied_resources(work) == ["AppliedManifestComplete"]

    await running.client.create(CONFIG_MAPS, running.config_map("one", {"a": "theirs"}))

    await running.says("w", "Available", "True")
    found = await running.find("one")
    assert found is not None
    assert found["data"] == {"a": "theirs"}
    assert "ownerReferences" not in found["metadata"]


async def test_a_field_of_another_manager_is_a_conflict_unless_force_is_used(running: WorkEnvironment) -> None:
    theirs = running.config_map("one", {"a": "theirs"})
    await running.client.apply(CONFIG_MAPS, theirs, manager="somebody")
    apply = [config("one", running.namespace, type="ServerSideApply")]
    await running.has("w", running.config_map("one", {"a": "ours"}), manifestConfigs=apply)

    work = await running.says("w", "Applied", "False")
    assert ".data.a" in messages_in(work)[0]

    force = [config("one", running.namespace, type="ServerSideApply", serverSideApply={"force": True})]
    await running.changes("w", running.config_map("one", {"a": "ours"}), manifestConfigs=force)
    await running.applied("w")
    assert (await running.find("one") or {})["data"] == {"a": "ours"}


@pytest.mark.parametrize(
    ("condition", "after_hub_change"),
    [
        pytest.param("OnSpokePresent", "theirs", id="left to the cluster for good"),
        pytest.param("OnSpokeChange", "ours", id="left to the cluster until the work changes"),
    ],
)
async def test_ignored_fields_belong_to_the_cluster(
    running: WorkEnvironment, condition: str, after_hub_change: str
) -> None:
    ignored = {"force": True, "ignoreFields": [{"condition": condition, "jsonPaths": [".data.a"]}]}
    apply = [config("one", running.namespace, type="ServerSideApply", serverSideApply=ignored)]
    await running.has("w", running.config_map("one", {"a": "ours", "b": "1"}), manifestConfigs=apply)
    await running.applied("w")
    key = ObjectKey(running.namespace, "one")
    await running.client.patch(CONFIG_MAPS, key, {"data": {"a": "theirs", "b": "drift"}})
    repaired = await running.until("one", lambda obj: obj["data"]["b"] == "1", within=10)
    assert repaired["data"]["a"] == "theirs"

    await running.changes("w", running.config_map("one", {"a": "ours", "b": "2"}), manifestConfigs=apply)

    changed = await running.until("one", lambda obj: obj["data"]["b"] == "2")
    assert changed["data"]["a"] == after_hub_change


async def test_a_kind_and_its_objects_may_come_in_one_work(running: WorkEnvironment) -> None:
    group = f"{running.namespace}.example.org"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    definition = CUSTOM_RESOURCE_DEFINITIONS.manifest(
        ObjectKey.cluster(f"things.{group}"),
        spec={"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    )
    metadata = {"name": "first", "namespace": running.namespace}
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": metadata, "spec": {"size": 3}}
    await running.has("w", thing, definition)

    work = await running.applied("w")

    metas = [row["resourceMeta"] for row in work["status"]["resourceStatus"]["manifests"]]
    assert [(meta["ordinal"], meta["resource"]) for meta in metas] == [
        (0, "things"),
        (1, "customresourcedefinitions"),
    ]
    await running.removes("w")


async def test_no_secret_is_ever_printed(running: WorkEnvironment, canary: Canary) -> None:
    secret = canary.plant("database password")
    body = SECRETS.manifest(ObjectKey(running.namespace, "s"), type="kubernetes.io/tls", stringData={"x": secret})
    await running.has("w", body)

    work = await running.says("w", "Applied", "False")

    canary.assert_not_leaked("the status", str(work["status"]))


@pytest.mark.parametrize("value", [True, 1, ["x"], {"x": "y"}])
async def test_secret_value_that_is_no_string_is_refused_and_nothing_is_stored(
    running: WorkEnvironment, value: Any
) -> None:
    key = ObjectKey(running.namespace, "s")
    await running.has("w", SECRETS.manifest(key, stringData={"good": "text", "x": value}))

    work = await running.says("w", "Applied", "False")

    assert f"the server refuses secrets {key}" in str(work["status"]["resourceStatus"])
    assert await running.client.find(SECRETS, key) is None


async def test_a_restart_finds_everything_done_and_writes_nothing(site: WorkEnvironment) -> None:
    site.start()
    await site.has("w", *[site.config_map(f"m{n}") for n in range(10)])
    await site.applied("w")
    await site.stop()
    site.log.clear()

    site.start()
    await site.has("other", site.config_map("another"))
    await site.applied("other")

    assert not [line for line in site.writes() if "m" in line.split()[1][:1]]
    reads = [one.path for one in site.log if one.method == "GET" and "/configmaps/m" in one.path]
    assert reads == []


async def test_a_work_costs_few_requests(running: WorkEnvironment) -> None:
    await running.has("w", *[running.config_map(f"m{n}") for n in range(10)])

    await running.applied("w")

    assert len(running.writes()) == 10 + len(
        ["finalizer", "record", "what is about to be applied", "what was applied", "status"]
    )


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param([{"name": "c", "image": "i", "misspelt": 1}], id="misspelt field"),
        pytest.param([{"name": "c", "image": "i", "env": [{"name": "A"}, {"name": "A"}]}], id="repeated key"),
    ],
)
async def test_what_cannot_be_declared_is_written_as_a_difference(
    running: WorkEnvironment, containers: list[Object]
) -> None:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await running.has("w", DEPLOYMENTS.manifest(ObjectKey(running.namespace, "d"), spec=spec))
    await running.applied("w")

    await running.changes("w", DEPLOYMENTS.manifest(ObjectKey(running.namespace, "d"), spec={**spec, "replicas": 2}))

    await running.until("d", lambda obj: obj["spec"]["replicas"] == 2, DEPLOYMENTS)
    await running.applied("w")


async def test_binding_to_another_role_is_replaced(running: WorkEnvironment) -> None:
    def binding(role: str) -> Object:
        reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}
        return ROLE_BINDINGS.manifest(ObjectKey(running.namespace, "b"), roleRef=reference, subjects=[])

    await running.has("w", binding("view"))
    await running.applied("w")

    await running.changes("w", binding("edit"))

    await running.until("b", lambda obj: obj["roleRef"]["name"] == "edit", ROLE_BINDINGS)
    await running.applied("w")


async def test_a_field_of_a_container_that_is_no_longer_asked_for_goes(running: WorkEnvironment) -> None:
    def deployment(**container: Any) -> Object:
        template = {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i", **container}]},
        }
        spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
        return DEPLOYMENTS.manifest(ObjectKey(running.namespace, "d"), spec=spec)

    await running.has("w", deployment(command=["x"], env=[{"name": "A", "value": "1"}]))
    await running.applied("w")
    await running.client.patch(DEPLOYMENTS, ObjectKey(running.namespace, "d"), {"spec": {"paused": True}})

    await running.changes("w", deployment())

    left = await running.until(
        "d", lambda o: "command" not in o["spec"]["template"]["spec"]["containers"][0], DEPLOYMENTS
    )
    assert "env" not in left["spec"]["template"]["spec"]["containers"][0]
    assert left["spec"]["paused"] is True
