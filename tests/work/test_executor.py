"""On whose behalf a work is applied, and what that identity may not do."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.helpers.server_decision import grant
from tests.work.work_environment import WorkEnvironment

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import service_account_user
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, RBAC_GROUP, ROLE_BINDINGS, ROLES
from watchword.kube.errors import AlreadyExists

EXECUTOR = "deployer"
ADMIN = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "admin"}
TENANT = {"apiGroup": RBAC_GROUP, "kind": "User", "name": "tenant"}


def executor(site: WorkEnvironment) -> Object:
    account = {"namespace": site.namespace, "name": EXECUTOR}
    return {"subject": {"type": "ServiceAccount", "serviceAccount": account}}


async def may(site: WorkEnvironment, verbs: list[str], resources: list[str], group: str = "") -> None:
    """Let the executor do this in the cluster's namespace."""
    name = site.plane.unique("right")
    rules = [{"apiGroups": [group], "resources": resources, "verbs": verbs}]
    await grant(site.client, ObjectKey(site.namespace, name), rules, service_account_user(site.namespace, EXECUTOR))


def message_in(work: Object) -> str:
    rows = work["status"]["resourceStatus"]["manifests"][0]["conditions"]
    return next(str(row["message"]) for row in rows if row["type"] == "Applied")


def reasons_in(work: Object) -> list[tuple[str, str, str]]:
    rows = work["status"]["resourceStatus"]["manifests"][0]["conditions"]
    return [(row["type"], row["status"], row["reason"]) for row in rows]


async def test_an_executor_without_the_right_applies_nothing(running: WorkEnvironment) -> None:
    await may(running, ["get", "create"], ["configmaps"])
    await running.has("w", running.config_map("one"), executor=executor(running))

    work = await running.says("w", "Applied", "False")

    assert f"the executor {running.namespace}/{EXECUTOR} may not update configmaps" in message_in(work)
    assert reasons_in(work) == [
        ("Applied", "False", "AppliedManifestFailed"),
        ("Available", "False", "ResourceNotAvailable"),
    ]
    assert await running.find("one") is None


async def test_an_executor_that_may_only_read_is_told_that_the_object_is_there(running: WorkEnvironment) -> None:
    await may(running, ["get"], ["configmaps"])
    await running.client.create(CONFIG_MAPS, running.config_map("one"))
    await running.has("w", running.config_map("one", {"a": "2"}), executor=executor(running))

    work = await running.says("w", "Applied", "False")

    assert reasons_in(work) == [
        ("Applied", "False", "AppliedManifestFailed"),
        ("Available", "True", "ResourceAvailable"),
        ("StatusFeedbackSynced", "True", "NoStatusFeedbackSynced"),
    ]


async def test_executor_without_read_access_learns_nothing_about_the_object(running: WorkEnvironment) -> None:
    await running.client.create(CONFIG_MAPS, running.config_map("one", {"a": "private"}))
    identifier = {"group": "", "resource": "configmaps", "namespace": running.namespace, "name": "one"}
    paths = [{"name": "a", "path": ".data.a"}]
    config = {
        "resourceIdentifier": identifier,
        "updateStrategy": {"type": "ReadOnly"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}],
    }
    await running.has("w", running.config_map("one"), executor=executor(running), manifestConfigs=[config])

    work = await running.says("w", "Applied", "False")

    assert "private" not in str(work["status"])
    assert reasons_in(work) == [
        ("Applied", "False", "AppliedManifestFailed"),
        ("Available", "False", "ResourceNotAvailable"),
    ]


async def test_an_executor_with_the_right_applies(running: WorkEnvironment) -> None:
    await may(running, ["get", "create", "update", "patch", "delete"], ["configmaps"])
    await running.has("w", running.config_map("one"), executor=executor(running))

    await running.applied("w")

    assert await running.find("one") is not None


@pytest.mark.planes("embedded")  # a minute has to pass
async def test_a_right_that_is_granted_later_counts_after_a_minute(running: WorkEnvironment) -> None:
    await running.has("w", running.config_map("one"), executor=executor(running))
    await running.says("w", "Applied", "False")

    await may(running, ["*"], ["configmaps"])

    await running.says("w", "Applied", "True", within=90)


async def test_an_executor_cannot_grant_what_it_has_not(running: WorkEnvironment) -> None:
    await may(running, ["get", "create", "update", "patch", "delete"], ["roles"], RBAC_GROUP)
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    role = ROLES.manifest(ObjectKey(running.namespace, "escalation"), rules=rules)
    await running.has("w", role, executor=executor(running))

    work = await running.says("w", "Applied", "False")

    assert "may not grant" in message_in(work)
    assert await running.find("escalation", ROLES) is None


async def test_an_executor_can_grant_what_it_has(running: WorkEnvironment) -> None:
    await may(running, ["get", "create", "update", "patch", "delete"], ["roles"], RBAC_GROUP)
    await may(running, ["get"], ["secrets"])
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    role = ROLES.manifest(ObjectKey(running.namespace, "granted"), rules=rules)
    await running.has("w", role, executor=executor(running))

    await running.applied("w")

    assert await running.find("granted", ROLES) is not None


@pytest.mark.parametrize("place", ["agent", "kube-system", "open-cluster-management-hub", "open-cluster-management"])
async def test_work_without_an_executor_changes_and_reads_nothing_in_a_protected_namespace(
    running: WorkEnvironment, place: str
) -> None:
    namespace = running.identity if place == "agent" else place
    name = await given_config_map(running, namespace)
    identifier = {"group": "", "resource": "configmaps", "namespace": namespace, "name": name}
    rule = {"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".data.a"}]}
    binding = ROLE_BINDINGS.manifest(ObjectKey(namespace, name), roleRef=ADMIN, subjects=[TENANT])
    await running.has(
        "w",
        CONFIG_MAPS.manifest(ObjectKey(namespace, name), data={"a": "changed"}),
        binding,
        running.config_map("beside"),
        manifestConfigs=[{"resourceIdentifier": identifier, "feedbackRules": [rule]}],
    )

    work = await running.says("w", "Applied", "False")

    assert f"{namespace} is protected from works without an executor" in message_in(work)
    assert "private" not in str(work["status"])
    assert (await running.client.get(CONFIG_MAPS, ObjectKey(namespace, name)))["data"] == {"a": "private"}
    assert await running.client.find(ROLE_BINDINGS, ObjectKey(namespace, name)) is None
    assert await running.find("beside") is not None


async def test_protected_namespace_is_open_to_an_executor_and_where_the_agent_allows_it(site: WorkEnvironment) -> None:
    name = await given_config_map(site, "kube-system")
    site.start(work_namespaces=frozenset({"kube-system"}))

    await site.has("w", CONFIG_MAPS.manifest(ObjectKey("kube-system", name), data={"a": "changed"}))

    await site.applied("w")


async def test_object_applied_before_its_namespace_was_protected_stays(site: WorkEnvironment) -> None:
    name = site.plane.unique("earlier")
    manifest = CONFIG_MAPS.manifest(ObjectKey("kube-system", name), data={"a": "1"})
    site.start(work_namespaces=frozenset({"kube-system"}))
    await site.has("w", manifest)
    await site.applied("w")
    await site.stop()

    site.start()
    await site.changes("w", {**manifest, "data": {"a": "2"}})

    await site.says("w", "Applied", "False")
    assert (await site.client.get(CONFIG_MAPS, ObjectKey("kube-system", name)))["data"] == {"a": "1"}


@pytest.mark.planes("embedded")  # a hub with the admission policy does not store such a work
async def test_work_with_an_incomplete_executor_reads_nothing(running: WorkEnvironment) -> None:
    await running.client.create(CONFIG_MAPS, running.config_map("one", {"a": "private"}))
    identifier = {"group": "", "resource": "configmaps", "namespace": running.namespace, "name": "one"}
    rule = {"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".data.a"}]}
    config = {
        "resourceIdentifier": identifier,
        "updateStrategy": {"type": "ReadOnly"},
        "feedbackRules": [rule],
    }
    incomplete = {"subject": {"type": "ServiceAccount"}}
    await running.has("w", running.config_map("one"), executor=incomplete, manifestConfigs=[config])

    work = await running.says("w", "Applied", "False")

    assert "private" not in str(work["status"])


async def given_config_map(site: WorkEnvironment, namespace: str) -> str:
    """Return the name of a new ConfigMap in a namespace, which is created where it does not exist."""
    with suppress(AlreadyExists):
        await site.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace)))
    name = site.plane.unique("kept")
    await site.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(ObjectKey(namespace, name), data={"a": "private"}))
    return name
