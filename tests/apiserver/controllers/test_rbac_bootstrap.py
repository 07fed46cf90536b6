"""The default policy is restored, and what an administrator added to it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from watchword.apiserver.access.bootstrap_policy import default_cluster_roles, ensure_bootstrap_policy, restore_defaults
from watchword.apiserver.controllers.cluster_role_aggregation import union_of

pytestmark = pytest.mark.timeout(20)
ADDED = {"apiGroups": ["acme.test"], "resources": ["rockets"], "verbs": ["get"]}


def _role(name: str, *rules: Object, auto_update: bool = True) -> Object:
    role = next(each for each in default_cluster_roles() if each["metadata"]["name"] == name)
    annotations = role["metadata"]["annotations"] if auto_update else {}
    return {**role, "metadata": {**role["metadata"], "annotations": annotations}, "rules": list(rules)}


def test_lost_rules_come_back_and_added_ones_stay() -> None:
    wanted = next(each for each in default_cluster_roles() if each["metadata"]["name"] == "system:basic-user")

    assert restore_defaults(_role("system:basic-user", ADDED), wanted)["rules"] == [ADDED, *wanted["rules"]]


def test_role_that_opted_out_is_left_alone() -> None:
    wanted = next(each for each in default_cluster_roles() if each["metadata"]["name"] == "system:basic-user")
    own = _role("system:basic-user", ADDED, auto_update=False)

    assert restore_defaults(own, wanted) == own


@pytest.mark.parametrize("name", ["view", "edit", "admin"])
def test_aggregated_role_begins_with_what_it_selects(name: str) -> None:
    roles = default_cluster_roles()
    role = next(each for each in roles if each["metadata"]["name"] == name)

    assert role["rules"]
    assert union_of(role, roles) == role["rules"]


def test_rules_of_an_aggregated_role_are_left_to_what_it_selects() -> None:
    wanted = next(each for each in default_cluster_roles() if each["metadata"]["name"] == "view")
    reduced = _role("view", ADDED)

    assert restore_defaults(reduced, wanted) == reduced


async def test_second_start_writes_only_what_is_missing(harness: Any) -> None:
    await harness.registry.delete(CLUSTER_ROLE_BINDINGS, ObjectKey.cluster("system:discovery"))
    before = harness.get(CLUSTER_ROLES, "system:discovery")

    await ensure_bootstrap_policy(harness.registry)

    assert harness.get(CLUSTER_ROLE_BINDINGS, "system:discovery") is not None
    assert harness.get(CLUSTER_ROLES, "system:discovery") == before
