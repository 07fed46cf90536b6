"""Token Secrets follow their account; aggregated roles follow the roles they select."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from watchword.api.meta import ObjectKey
from watchword.api.resources import CLUSTER_ROLES, SECRETS, SERVICE_ACCOUNTS
from watchword.pki.unverified import read_unverified_claims

pytestmark = pytest.mark.timeout(20)
TOKEN_TYPE = "kubernetes.io/service-account-token"


async def _token_secret(world: Any, account: str) -> None:
    annotations = {"kubernetes.io/service-account.name": account}
    await world.has(SECRETS, "token", "default", type=TOKEN_TYPE, metadata={"annotations": annotations})


async def test_token_secret_is_filled(world: Any) -> None:
    account = await world.has(SERVICE_ACCOUNTS, "robot", "default")
    await _token_secret(world, "robot")

    data = world.get(SECRETS, "token", "default")["data"]
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
    assert base64.b64decode(data["ca.crt"]) == world.bundle


async def test_token_secret_of_a_missing_account_is_removed(world: Any) -> None:
    await _token_secret(world, "nobody")

    assert world.get(SECRETS, "token", "default") is None


async def test_token_secret_goes_with_its_account_and_leaves_its_list(world: Any) -> None:
    await world.has(SERVICE_ACCOUNTS, "robot", "default")
    await world.has(SERVICE_ACCOUNTS, "other", "default", secrets=[{"name": "token"}])
    await _token_secret(world, "robot")

    await world.registry.delete(SERVICE_ACCOUNTS, ObjectKey("default", "robot"))
    await world.settles()

    assert world.get(SECRETS, "token", "default") is None
    assert not world.get(SERVICE_ACCOUNTS, "other", "default").get("secrets")


async def test_default_roles_are_aggregated(world: Any) -> None:
    admin, edit, view = (world.get(CLUSTER_ROLES, name) for name in ("admin", "edit", "view"))

    assert all(rule in edit["rules"] for rule in view["rules"])
    assert all(rule in admin["rules"] for rule in edit["rules"])
    assert any("rolebindings" in rule["resources"] for rule in admin["rules"])


async def test_aggregated_role_follows_a_role_that_comes_changes_and_goes(world: Any) -> None:
    rule = {"apiGroups": ["acme.test"], "resources": ["rockets"], "verbs": ["get"]}
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    role = await world.has(CLUSTER_ROLES, "rockets", metadata={"labels": labels}, rules=[rule])
    assert rule in world.get(CLUSTER_ROLES, "admin")["rules"]

    changed = {**rule, "verbs": ["get", "list"]}
    await world.registry.update(CLUSTER_ROLES, {**role, "rules": [changed]})
    await world.settles()
    assert changed in world.get(CLUSTER_ROLES, "admin")["rules"]

    await world.registry.delete(CLUSTER_ROLES, ObjectKey.cluster("rockets"))
    await world.settles()
    assert changed not in world.get(CLUSTER_ROLES, "admin")["rules"]
