"""No user grants rights that they do not have, unless `escalate` or `bind` allows it."""

from __future__ import annotations

from typing import Any

import pytest

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MANAGE = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update", "get"]}
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
READ_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}


def _role(*rules: Any, **fields: Any) -> Any:
    return {"metadata": {"name": "new"}, "rules": list(rules), **fields}


def _binding(kind: str, name: str) -> Any:
    subjects = [{"kind": "User", "name": "eve"}]
    return {"metadata": {"name": "new"}, "roleRef": {"kind": kind, "name": name}, "subjects": subjects}


async def test_role_with_rights_not_held_is_refused_by_name_of_the_rights(secured_api: Any) -> None:
    await secured_api.grant("bob", MANAGE, READ_PODS)

    code, status = await secured_api.as_user("bob", "POST", f"{RBAC}/clusterroles", _role(READ_PODS, READ_SECRETS))

    assert code == 403
    assert status["message"] == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "bob" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )


async def test_rule_without_verbs_is_invalid_also_for_those_who_may_not_escalate(secured_api: Any) -> None:
    await secured_api.grant("bob", MANAGE)
    role = _role({"apiGroups": [""], "resources": ["pods"]})

    code, status = await secured_api.as_user("bob", "POST", f"{RBAC}/namespaces/default/roles", role)

    assert (code, status["details"]["causes"][0]["field"]) == (422, "rules[0].verbs")


@pytest.mark.parametrize(
    ("granted", "code"),
    [
        pytest.param([READ_PODS], 201, id="holds the rights"),
        pytest.param([{**MANAGE, "resources": ["clusterroles"], "verbs": ["escalate"]}], 201, id="may escalate"),
        pytest.param([{**MANAGE, "resources": ["roles"], "verbs": ["escalate"]}], 403, id="may escalate elsewhere"),
        pytest.param([], 403, id="neither"),
    ],
)
async def test_creating_a_role(secured_api: Any, granted: list[Any], code: int) -> None:
    await secured_api.grant("bob", MANAGE, *granted)

    assert (await secured_api.as_user("bob", "POST", f"{RBAC}/clusterroles", _role(READ_PODS)))[0] == code


@pytest.mark.parametrize(
    ("granted", "code"),
    [
        pytest.param([READ_PODS], 201, id="holds the rights"),
        pytest.param(
            [{**MANAGE, "verbs": ["bind"], "resources": ["clusterroles"], "resourceNames": ["target"]}],
            201,
            id="may bind it",
        ),
        pytest.param(
            [{**MANAGE, "verbs": ["bind"], "resources": ["clusterroles"], "resourceNames": ["other"]}],
            403,
            id="may bind another",
        ),
        pytest.param([], 403, id="neither"),
    ],
)
async def test_binding_a_role(secured_api: Any, granted: list[Any], code: int) -> None:
    await secured_api.call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "target"}, "rules": [READ_PODS]})
    await secured_api.grant("bob", MANAGE, *granted)
    binding = _binding("ClusterRole", "target")

    assert (await secured_api.as_user("bob", "POST", f"{RBAC}/clusterrolebindings", binding))[0] == code
    in_namespace = f"{RBAC}/namespaces/default/rolebindings"
    assert (await secured_api.as_user("bob", "POST", in_namespace, binding))[0] == code


async def test_binding_an_unknown_role_is_not_found_to_those_who_may_not_bind_it(secured_api: Any) -> None:
    await secured_api.grant("bob", MANAGE)

    code, status = await secured_api.as_user(
        "bob", "POST", f"{RBAC}/clusterrolebindings", _binding("ClusterRole", "no")
    )

    assert (code, status["message"]) == (404, 'clusterrolebindings.rbac.authorization.k8s.io "no" not found')


async def test_aggregation_needs_everything(secured_api: Any) -> None:
    await secured_api.grant("bob", MANAGE, READ_PODS)
    rule = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}

    code, status = await secured_api.as_user("bob", "POST", f"{RBAC}/clusterroles", _role(aggregationRule=rule))

    assert code == 403
    assert status["message"].endswith("must have cluster-admin privileges to use the aggregationRule")


async def test_group_membership_alone_makes_a_superuser(secured_api: Any) -> None:
    args = ("root", "POST", f"{RBAC}/clusterroles", _role(READ_SECRETS), "system:masters")

    assert (await secured_api.as_user(*args))[0] == 201


async def test_role_ref_never_changes(secured_api: Any) -> None:
    await secured_api.grant("bob", READ_PODS)
    _, binding = await secured_api.call("GET", f"{RBAC}/clusterrolebindings/granted-bob")

    binding["roleRef"]["name"] = "cluster-admin"
    code, status = await secured_api.call("PUT", f"{RBAC}/clusterrolebindings/granted-bob", binding)

    assert code == 422
    assert "cannot change roleRef" in status["message"]
