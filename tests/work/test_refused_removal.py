"""A refused removal is reported on the hub until it succeeds."""

from __future__ import annotations

import pytest
from tests.helpers.server_decision import grant
from tests.work.work_environment import WorkEnvironment

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_ROLES, MANIFEST_WORKS
from watchword.testing.builders import a_cluster_role_binding
from watchword.testing.eventually import eventually, is_gone

KEEPING = ["get", "list", "watch", "create", "update", "patch"]


@pytest.fixture
async def role(site: WorkEnvironment) -> ObjectKey:
    """The rights of an agent that may do everything but delete what it has applied; the agent runs."""
    key = ObjectKey.cluster(site.plane.unique("careful-agent"))
    own = {"apiGroups": ["work.open-cluster-management.io"], "resources": ["*"], "verbs": ["*"]}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": KEEPING}, own]
    await grant(site.client, key, rules, key.name)
    site.start(client=site.plane.client(key.name))
    return key


async def may_delete(site: WorkEnvironment, role: ObjectKey) -> None:
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await site.client.patch(CLUSTER_ROLES, role, {"rules": rules})


def message_of(work: Object, type_: str) -> str:
    said = find_condition(work, type_)
    return "" if said is None else said.message


async def test_blocked_deletion_of_a_work_names_the_remaining_objects(site: WorkEnvironment, role: ObjectKey) -> None:
    await site.has("w", site.config_map("one"))
    await site.applied("w")
    key = ObjectKey(site.cluster, "w")

    await site.client.delete(MANIFEST_WORKS, key)
    work = await eventually(
        site.client, MANIFEST_WORKS, key, lambda obj: "cannot be removed" in message_of(obj or {}, "Deleting")
    )

    assert f"configmaps {site.namespace}/one cannot be removed: the server refuses" in message_of(work, "Deleting")
    await may_delete(site, role)
    await eventually(site.client, MANIFEST_WORKS, key, is_gone, within=120)


async def test_object_that_blocks_removal_is_reported_until_it_is_gone(site: WorkEnvironment, role: ObjectKey) -> None:
    await site.has("w", site.config_map("one"), site.config_map("two"))
    await site.applied("w")

    await site.changes("w", site.config_map("two"))
    work = await site.says("w", "LeftoversRemoved", "False")

    assert f"configmaps {site.namespace}/one cannot be removed" in message_of(work, "LeftoversRemoved")
    await may_delete(site, role)
    work = await eventually(
        site.client,
        MANIFEST_WORKS,
        ObjectKey(site.cluster, "w"),
        lambda obj: find_condition(obj or {}, "LeftoversRemoved") is None,
        within=120,
    )
    assert find_condition(work, "Applied") is not None


async def test_work_that_was_never_applied_goes_without_the_right_to_its_objects(site: WorkEnvironment) -> None:
    user = site.plane.unique("narrow-agent")
    rules = [
        {"apiGroups": ["work.open-cluster-management.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    await grant(site.client, ObjectKey.cluster(user), rules, user)
    site.start(client=site.plane.client(user))
    await site.has("w", a_cluster_role_binding(user + "-granted", role="view", users=["robot"]))
    await site.says("w", "Applied", "False")

    await site.client.delete(MANIFEST_WORKS, ObjectKey(site.cluster, "w"))

    await eventually(site.client, MANIFEST_WORKS, ObjectKey(site.cluster, "w"), is_gone, within=120)
