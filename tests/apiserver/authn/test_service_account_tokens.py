"""ServiceAccount tokens are good while all they name exists, and not a moment longer."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

CORE = "/api/v1/namespaces/default"
ACCOUNT = f"{CORE}/serviceaccounts/robot"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONTAINERS = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "robot"}
BOUND: dict[str, tuple[str, Any]] = {
    "Pod": (f"{CORE}/pods", {"metadata": {"name": "b"}, "spec": CONTAINERS}),
    "Secret": (f"{CORE}/secrets", {"metadata": {"name": "b"}}),
    "Node": ("/api/v1/nodes", {"metadata": {"name": "b"}}),
}


async def _account(secured_api: Any) -> None:
    await secured_api.call("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "robot"}})


async def _token(secured_api: Any, **spec: Any) -> str:
    _, reply = await secured_api.call("POST", f"{ACCOUNT}/token", {"spec": spec})
    token: str = reply["status"]["token"]
    return token


async def _is_good(secured_api: Any, token: str) -> bool:
    code, _ = await secured_api.call("POST", WHOAMI, {}, token=token)
    assert code in {201, 401}
    return bool(code == 201)


async def test_token_names_the_account(secured_api: Any) -> None:
    await _account(secured_api)

    _, review = await secured_api.call("POST", WHOAMI, {}, token=await _token(secured_api))

    info = review["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:robot"
    assert info["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert info["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


async def test_token_ends_with_its_account_even_when_the_name_is_taken_again(secured_api: Any) -> None:
    await _account(secured_api)
    token = await _token(secured_api)
    assert await _is_good(secured_api, token)

    await secured_api.call("DELETE", ACCOUNT)
    assert not await _is_good(secured_api, token)
    await _account(secured_api)
    assert not await _is_good(secured_api, token)


@pytest.mark.parametrize("kind", list(BOUND))
async def test_bound_token_ends_with_what_it_is_bound_to(secured_api: Any, kind: str) -> None:
    await _account(secured_api)
    path, body = BOUND[kind]
    await secured_api.call("POST", path, body)
    token = await _token(secured_api, boundObjectRef={"apiVersion": "v1", "kind": kind, "name": "b"})
    assert await _is_good(secured_api, token)

    await secured_api.call("DELETE", f"{path}/b")
    assert not await _is_good(secured_api, token)
    await secured_api.call("POST", path, body)
    assert not await _is_good(secured_api, token)


async def test_token_ends_a_minute_after_its_expiry(secured_api: Any) -> None:
    await _account(secured_api)
    token = await _token(secured_api, expirationSeconds=600)

    await asyncio.sleep(658)  # virtual
    assert await _is_good(secured_api, token)
    await asyncio.sleep(3)
    assert not await _is_good(secured_api, token)


async def test_token_for_others_is_not_for_this_plane(secured_api: Any) -> None:
    await _account(secured_api)

    assert not await _is_good(secured_api, await _token(secured_api, audiences=["vault"]))
    assert await _is_good(secured_api, await _token(secured_api, audiences=["vault", "https://issuer.test"]))


async def test_forged_tokens_are_refused(secured_api: Any) -> None:
    await _account(secured_api)
    header, payload, signature = (await _token(secured_api)).split(".")
    other = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")

    assert not await _is_good(secured_api, f"{header}.{payload}.{signature[::-1]}")
    assert not await _is_good(secured_api, f"{other}.{payload}.")
    assert not await _is_good(secured_api, f"{other}.{payload}.{signature}")


async def test_legacy_token_is_good_while_its_secret_holds_it(secured_api: Any) -> None:
    await _account(secured_api)
    annotations = {"kubernetes.io/service-account.name": "robot"}
    body = {"metadata": {"name": "t", "annotations": annotations}, "type": "kubernetes.io/service-account-token"}
    await secured_api.call("POST", f"{CORE}/secrets", body)
    _, secret = await secured_api.call("GET", f"{CORE}/secrets/t")
    token = base64.b64decode(secret["data"]["token"]).decode()

    assert await _is_good(secured_api, token)
    _, used = await secured_api.call("GET", f"{CORE}/secrets/t")
    assert used["metadata"]["labels"] == {"kubernetes.io/legacy-token-last-used": "2026-01-01"}
    await secured_api.call("DELETE", f"{CORE}/secrets/t")
    assert not await _is_good(secured_api, token)


async def test_bootstrap_token_works_on_the_plane_until_its_secret_goes(secured_api: Any) -> None:
    values = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    body = {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": values,
    }
    assert not await _is_good(secured_api, "abcdef.0123456789abcdef")
    await secured_api.call("POST", "/api/v1/namespaces/kube-system/secrets", body)

    assert await _is_good(secured_api, "abcdef.0123456789abcdef")
    assert not await _is_good(secured_api, "abcdef.0123456789abcdeX")
    await secured_api.call("DELETE", "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef")
    assert not await _is_good(secured_api, "abcdef.0123456789abcdef")
