"""RBAC on a complete control plane: what is allowed, and the messages of refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from watchword.api.meta import Object, Resource
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CORE_EVENTS,
    CUSTOM_RESOURCE_DEFINITIONS,
)

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        pytest.param(
            "GET",
            "/api/v1/namespaces/default/secrets/x",
            'secrets "x" is forbidden: User "bob" cannot get resource "secrets" in API group "" '
            'in the namespace "default"',
            id="one object",
        ),
        pytest.param(
            "DELETE",
            "/apis/apps/v1/namespaces/default/deployments",
            'deployments.apps is forbidden: User "bob" cannot deletecollection resource "deployments" '
            'in API group "apps" in the namespace "default"',
            id="a collection of another group",
        ),
        pytest.param(
            "PUT",
            "/api/v1/nodes/n/status",
            'nodes "n" is forbidden: User "bob" cannot update resource "nodes/status" in API group "" '
            "at the cluster scope",
            id="part of a cluster-scoped object",
        ),
        pytest.param("GET", "/metrics", 'forbidden: User "bob" cannot get path "/metrics"', id="a path"),
    ],
)
async def test_refusal_says_who_cannot_do_what_where(secured_api: Any, method: str, path: str, message: str) -> None:
    code, status = await secured_api.as_user("bob", method, path)

    assert (code, status["reason"], status["message"]) == (403, "Forbidden", message)


async def test_role_counts_in_its_namespace_only(secured_api: Any) -> None:
    await secured_api.grant("bob", READ_PODS, namespace="default")

    assert (await secured_api.as_user("bob", "GET", "/api/v1/namespaces/default/pods"))[0] == 200
    assert (await secured_api.as_user("bob", "GET", "/api/v1/namespaces/kube-system/pods"))[0] == 403
    assert (await secured_api.as_user("bob", "GET", "/api/v1/pods"))[0] == 403


async def test_removed_binding_ends_the_right_at_once(secured_api: Any) -> None:
    await secured_api.grant("bob", READ_PODS)
    assert (await secured_api.as_user("bob", "GET", "/api/v1/pods"))[0] == 200

    await secured_api.call("DELETE", f"{RBAC}/clusterrolebindings/granted-bob")

    assert (await secured_api.as_user("bob", "GET", "/api/v1/pods"))[0] == 403


async def test_role_that_cannot_be_read_grants_nothing(secured_api: Any) -> None:
    await secured_api.grant("bob", READ_PODS)
    reported = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))

    unreadable = {"metadata": {"name": "granted-bob"}, "rules": [{**READ_PODS, "verbs": "get"}]}
    await secured_api.store_unchecked(CLUSTER_ROLES, unreadable)

    assert (await secured_api.as_user("bob", "GET", "/api/v1/pods"))[0] == 403
    assert reported == ["a listener failed"]


async def test_binding_that_cannot_be_read_grants_nothing(secured_api: Any) -> None:
    await secured_api.grant("bob", READ_PODS)
    asyncio.get_running_loop().set_exception_handler(lambda _, __: None)
    subjects = [{"kind": "User", "name": "bob"}, {"kind": "User", "name": ["eve"]}]
    role = {"kind": "ClusterRole", "name": "granted-bob"}

    unreadable = {"metadata": {"name": "granted-bob"}, "roleRef": role, "subjects": subjects}
    await secured_api.store_unchecked(CLUSTER_ROLE_BINDINGS, unreadable)

    assert (await secured_api.as_user("bob", "GET", "/api/v1/pods"))[0] == 403


@pytest.mark.parametrize(
    ("resource", "unreadable"),
    [
        pytest.param(CLUSTER_ROLES, {"rules": [{**READ_PODS, "verbs": "get"}]}, id="role"),
        pytest.param(CLUSTER_ROLE_BINDINGS, {"roleRef": "view"}, id="binding"),
        pytest.param(CORE_EVENTS, {"metadata": {"name": "odd", "managedFields": 5}}, id="event"),
        pytest.param(CUSTOM_RESOURCE_DEFINITIONS, {"status": {"acceptedNames": 5}}, id="definition"),
    ],
)
async def test_server_starts_with_an_object_that_it_cannot_read(
    secured_api: Any, resource: Resource, unreadable: Object
) -> None:
    await secured_api.store_unchecked(resource, {"metadata": {"name": "odd"}, **unreadable})
    await secured_api.plane.stop()
    asyncio.get_running_loop().set_exception_handler(lambda _, __: None)

    secured_api.plane = secured_api.new_plane(secured_api.plane.store)
    await secured_api.plane.start()

    assert (await secured_api.call("GET", "/api/v1/namespaces"))[0] == 200


async def test_refusal_names_the_missing_role_of_a_binding(secured_api: Any) -> None:
    await secured_api.grant("bob", READ_PODS)
    await secured_api.call("DELETE", f"{RBAC}/clusterroles/granted-bob")

    _, status = await secured_api.as_user("bob", "GET", "/api/v1/pods")

    assert status["message"].endswith(': RBAC: clusterrole.rbac.authorization.k8s.io "granted-bob" not found')


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param("/version", 200, id="version"),
        pytest.param("/healthz", 200, id="health"),
        pytest.param("/livez", 200, id="liveness"),
        pytest.param("/readyz", 200, id="readiness"),
        pytest.param("/api", 403, id="discovery"),
        pytest.param("/apis", 403, id="discovery of groups"),
        pytest.param("/openapi/v3", 403, id="openapi"),
        pytest.param("/openid/v1/jwks", 403, id="keys"),
        pytest.param("/api/v1/namespaces/kube-public/configmaps/cluster-info", 403, id="cluster-info by default"),
        pytest.param("/api/v1/namespaces/kube-system/secrets", 403, id="secrets"),
        pytest.param("/anything", 403, id="a path that does not exist"),
    ],
)
async def test_rights_of_anonymous_clients(secured_api: Any, path: str, code: int) -> None:
    assert (await secured_api.call("GET", path, token=""))[0] == code


async def test_anonymous_clients_reach_no_served_resource(secured_api: Any) -> None:
    groups = {kind.resource for kind in secured_api.plane.kinds.all()}

    codes = {(await secured_api.call("GET", resource.path(namespace="default"), token=""))[0] for resource in groups}

    assert codes == {403}
