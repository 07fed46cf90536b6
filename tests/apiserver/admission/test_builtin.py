"""Admission of built-in kinds on a whole control plane."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import ObjectKey
from watchword.apiserver.admission.catalog import deduplicate_owners
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.serving.model import Operation, User

CORE = "/api/v1/namespaces/default"
CONFIG_MAPS = next(each for each in BUILTINS if each.resource.kind == "ConfigMap")
CONTAINER = {"name": "c", "image": "i"}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_that_must_stay_stay(secured_api: Any, name: str) -> None:
    code, status = await secured_api.call("DELETE", f"/api/v1/namespaces/{name}")

    assert (code, status["message"]) == (403, f'namespaces "{name}" is forbidden: this namespace may not be deleted')


async def test_namespace_content_needs_a_namespace_that_stays(secured_api: Any) -> None:
    await secured_api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    held = {"metadata": {"name": "held", "finalizers": ["acme.test/hold"]}}
    await secured_api.call("POST", "/api/v1/namespaces/team/configmaps", held)
    await secured_api.call("DELETE", "/api/v1/namespaces/team")

    code, status = await secured_api.call("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "late"}})
    assert (code, status["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    code, status = await secured_api.call("POST", "/api/v1/namespaces/none/configmaps", {"metadata": {"name": "lost"}})
    assert (code, status["message"]) == (404, 'namespaces "none" not found')


async def test_pod_runs_as_an_account_and_finds_its_token(secured_api: Any) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}

    _, pod = await secured_api.call("POST", f"{CORE}/pods", body)

    assert pod["spec"]["serviceAccountName"] == "default"
    volume = pod["spec"]["volumes"][0]
    assert volume["name"].startswith("kube-api-access-")
    mount = pod["spec"]["containers"][0]["volumeMounts"][0]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/var/run/secrets/kubernetes.io/serviceaccount")
    assert volume["projected"]["sources"][0]["serviceAccountToken"] == {"expirationSeconds": 3607, "path": "token"}


async def test_pod_may_do_without_a_token(secured_api: Any) -> None:
    spec = {"containers": [CONTAINER], "automountServiceAccountToken": False}

    _, pod = await secured_api.call("POST", f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": spec})

    assert "volumes" not in pod["spec"]


async def test_pod_of_an_unknown_account_is_refused(secured_api: Any) -> None:
    spec = {"containers": [CONTAINER], "serviceAccountName": "nobody"}

    code, status = await secured_api.call("POST", f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": spec})

    assert (code, status["message"]) == (
        403,
        'pods "p" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found',
    )


async def test_a_million_equal_owners_cost_no_more_than_reading_them() -> None:
    child: Any = {"metadata": {"ownerReferences": [{"uid": "u"}] * 1_000_000}}
    key = ObjectKey("default", "child")

    # Compared with each other, they would block the server for minutes.
    await deduplicate_owners(Operation("create", CONFIG_MAPS, key, User("writer"), child, None))

    assert child == {"metadata": {"ownerReferences": [{"uid": "u"}]}}


async def test_repeated_owner_is_kept_once_with_a_warning(secured_api: Any) -> None:
    _, owner = await secured_api.call("POST", f"{CORE}/secrets", {"metadata": {"name": "owner"}})
    ref = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"]}
    body = {"metadata": {"name": "child", "ownerReferences": [ref, ref]}}
    headers = {"Authorization": "Bearer admin-of-this-instance"}

    response = await secured_api.send("POST", f"{CORE}/configmaps", body, headers=headers)

    assert "duplicate" in response.header("Warning")
    _, child = await secured_api.call("GET", f"{CORE}/configmaps/child")
    assert len(child["metadata"]["ownerReferences"]) == 1
