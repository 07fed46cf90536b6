"""Token Secrets follow their account; aggregated roles follow the roles they select."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from watchword.api.meta import ObjectKey
from watchword.api.resources import CLUSTER_ROLES, SECRETS, SERVICE_ACCOUNTS
from watchword.pki.jwt import read_unverified_claims

pytestmark = pytest.mark.timeout(20)
TOKEN_TYPE = "kubernetes.io/service-account-token"


async def _token_secret(harness: Any, account: str) -> None:
    annotations = {"kubernetes.io/service-account.name": account}
    await harness.has(SECRETS, "token", "default", type=TOKEN_TYPE, metadata={"annotations": annotations})


async def test_token_secret_is_filled(harness: Any) -> None:
    account = await harness.has(SERVICE_ACCOUNTS, "robot", "default")
    await _token_secret(harness, "robot")

    data = harness.get(SECRETS, "token", "default")["data"]
    claims = read_unverified_claims(base64.b64decode(data["token"]).decode())
    assert claims == {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "token",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"],
        "sub": "system:serviceaccount:default:robot",
    }
    assert base64.b64decode(data["namespace"]) == b"default"
    assert base64.b64decode(data["ca.crt"]) == harness.bundle


async def test_token_secret_of_a_missing_account_is_removed(harness: Any) -> None:
    await _token_secret(harness, "nobody")

    assert harness.get(SECRETS, "token", "default") is None


async def test_token_secret_goes_with_its_account_and_leaves_its_list(harness: Any) -> None:
    await harness.has(SERVICE_ACCOUNTS, "robot", "default")
    await harness.has(SERVICE_ACCOUNTS, "other", "default", secrets=[{"name": "token"}])
    await _token_secret(harness, "robot")

    await harness.registry.delete(SERVICE_ACCOUNTS, ObjectKey("default", "robot"))
    await harness.settles()

    assert harness.get(SECRETS, "token", "default") is None
    assert not harness.get(SERVICE_ACCOUNTS, "other", "default").get("secrets")


async def test_default_roles_are_aggregated(harness: Any) -> None:
    admin, edit, view = (harness.get(CLUSTER_ROLES, name) for name in ("admin", "edit", "view"))

    assert all(rule in edit["rules"] for rule in view["rules"])
    assert all(rule in admin["rules"] for rule in edit["rules"])
    assert any("rolebindings" in rule["resources"] for rule in admin["rules"])


async def test_aggregated_role_follows_a_role_that_comes_changes_and_goes(harness: Any) -> None:
    rule = {"apiGroups": ["acme.test"], "resources": ["rockets"], "verbs": ["get"]}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    role = await harness.has(CLUSTER_ROLES, "rockets", metadata={"labels": labels}, rules=[rule])
    assert rule in harness.get(CLUSTER_ROLES, "admin")["rules"]

    changed = {**rule, "verbs": ["get", "list"]}
    await harness.registry.update(CLUSTER_ROLES, {**role, "rules": [changed]})
    await harness.settles()
    assert changed in harness.get(CLUSTER_ROLES, "admin")["rules"]

    await harness.registry.delete(CLUSTER_ROLES, ObjectKey.cluster("rockets"))
    await harness.settles()
    assert changed not in harness.get(CLUSTER_ROLES, "admin")["rules"]


async def test_aggregated_role_drops_the_rules_of_a_role_that_loses_its_label(harness: Any) -> None:
    rule = {"apiGroups": ["acme.test"], "resources": ["rockets"], "verbs": ["get"]}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    role = await harness.has(CLUSTER_ROLES, "rockets", metadata={"labels": labels}, rules=[rule])

    await harness.registry.update(CLUSTER_ROLES, {**role, "metadata": {**role["metadata"], "labels": {}}})
    await harness.settles()

    assert rule not in harness.get(CLUSTER_ROLES, "view")["rules"]
    assert rule not in harness.get(CLUSTER_ROLES, "admin")["rules"]


async def test_role_that_begins_to_aggregate_takes_up_the_rules_of_present_roles(harness: Any) -> None:
    rule = {"apiGroups": ["acme.test"], "resources": ["rockets"], "verbs": ["get"]}
    await harness.has(CLUSTER_ROLES, "rockets", metadata={"labels": {"acme.test/pilot": "true"}}, rules=[rule])

    selectors = {"clusterRoleSelectors": [{"matchLabels": {"acme.test/pilot": "true"}}]}
    await harness.has(CLUSTER_ROLES, "pilot", aggregationRule=selectors)

    assert harness.get(CLUSTER_ROLES, "pilot")["rules"] == [rule]
