"""The reviews, answered as kube-apiserver answers them."""

from __future__ import annotations

from typing import Any

import pytest

AUTHN = "/apis/authentication.k8s.io/v1"
AUTHZ = "/apis/authorization.k8s.io/v1"
GET_PODS = {"verb": "get", "resource": "pods", "namespace": "default"}


async def _decision(secured_api: Any, **spec: Any) -> Any:
    code, review = await secured_api.call("POST", f"{AUTHZ}/subjectaccessreviews", {"spec": spec})
    assert code == 201
    return review["status"]


async def test_token_review_names_the_holder_and_the_audiences(secured_api: Any) -> None:
    url = "/api/v1/namespaces/default/serviceaccounts/default/token"
    _, reply = await secured_api.call("POST", url, {"spec": {"audiences": ["vault"]}})
    spec = {"token": reply["status"]["token"], "audiences": ["vault", "other"]}

    code, review = await secured_api.call("POST", f"{AUTHN}/tokenreviews", {"spec": spec})

    assert (code, review["status"]["authenticated"], review["status"]["audiences"]) == (201, True, ["vault"])
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:default"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        pytest.param({"token": "abc"}, "invalid bearer token", id="unknown"),
        pytest.param(
            {"token": "admin-of-this-instance", "audiences": ["vault"]}, None, id="own tokens are for every audience"
        ),
    ],
)
async def test_token_review_of_a_bad_token_succeeds_with_authenticated_false(
    secured_api: Any, spec: Any, error: str | None
) -> None:
    code, review = await secured_api.call("POST", f"{AUTHN}/tokenreviews", {"spec": spec})

    assert (code, review["status"].get("error")) == (201, error)
    assert review["status"].get("authenticated", False) is (error is None)


async def test_token_review_without_a_token_is_a_bad_request(secured_api: Any) -> None:
    code, status = await secured_api.call("POST", f"{AUTHN}/tokenreviews", {"spec": {}})

    assert (code, status["message"]) == (400, "token is required for TokenReview in authentication")


async def test_self_review_shows_the_impersonated_user(secured_api: Any) -> None:
    code, review = await secured_api.as_user("bob", "POST", f"{AUTHN}/selfsubjectreviews", {})

    assert code == 201
    assert review["status"] == {"userInfo": {"username": "bob", "groups": ["system:authenticated"]}}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param(f"{AUTHN}/selfsubjectreviews", "SelfSubjectReview", id="identity"),
        pytest.param(f"{AUTHZ}/selfsubjectrulesreviews", "SelfSubjectRulesReview", id="rules"),
        pytest.param(f"{AUTHZ}/selfsubjectaccessreviews", "SelfSubjectAccessReview", id="access"),
    ],
)
async def test_review_without_a_kind_is_answered_with_its_kind(secured_api: Any, path: str, kind: str) -> None:
    spec = {"namespace": "default"} if kind == "SelfSubjectRulesReview" else {"resourceAttributes": GET_PODS}
    body = {"kind": "", "apiVersion": "", **({} if kind == "SelfSubjectReview" else {"spec": spec})}

    code, review = await secured_api.call("POST", path, body)

    assert (code, review["kind"], review["apiVersion"]) == (201, kind, path.removeprefix("/apis/").rpartition("/")[0])


async def test_access_review_gives_the_binding_as_reason(secured_api: Any) -> None:
    nobody = await _decision(secured_api, user="bob", resourceAttributes=GET_PODS)
    anybody = await _decision(
        secured_api, groups=["system:authenticated"], nonResourceAttributes={"path": "/api", "verb": "get"}
    )

    assert nobody == {"allowed": False}
    assert anybody == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" '
        'to Group "system:authenticated"',
    }


async def test_superusers_are_allowed_without_a_reason(secured_api: Any) -> None:
    assert await _decision(secured_api, groups=["system:masters"], resourceAttributes=GET_PODS) == {"allowed": True}


@pytest.mark.parametrize(
    ("path", "spec", "message"),
    [
        pytest.param(
            "subjectaccessreviews",
            {},
            "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or "
            'resourceAttributes must be specified, spec.user: Invalid value: "": at least one of user or group '
            "must be specified]",
            id="nothing asked",
        ),
        pytest.param(
            "subjectaccessreviews",
            {"user": "bob", "resourceAttributes": GET_PODS, "nonResourceAttributes": {"path": "/api"}},
            'spec.nonResourceAttributes: Invalid value: {"Path":"/api","Verb":""}: '
            "cannot be specified in combination with resourceAttributes",
            id="two questions",
        ),
        pytest.param(
            "namespaces/kube-system/localsubjectaccessreviews",
            {"user": "bob", "resourceAttributes": GET_PODS},
            'spec.resourceAttributes.namespace: Invalid value: "default": must match metadata.namespace',
            id="another namespace",
        ),
    ],
)
async def test_unclear_question_is_invalid(secured_api: Any, path: str, spec: Any, message: str) -> None:
    code, status = await secured_api.call("POST", f"{AUTHZ}/{path}", {"spec": spec})

    assert (code, status["message"]) == (422, f'.authorization.k8s.io "" is invalid: {message}')


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"user": 7, "resourceAttributes": GET_PODS}, id="number for a name"),
        pytest.param({"user": "a", "resourceAttributes": []}, id="list for attributes"),
        pytest.param({"user": "a", "groups": "b", "resourceAttributes": GET_PODS}, id="text for groups"),
        pytest.param({"user": "a", "extra": {"k": "v"}, "resourceAttributes": GET_PODS}, id="text for extra"),
    ],
)
async def test_nonsense_is_a_bad_request(secured_api: Any, spec: Any) -> None:
    assert (await secured_api.call("POST", f"{AUTHZ}/subjectaccessreviews", {"spec": spec}))[0] == 400


async def test_every_user_may_review_their_own_rights(secured_api: Any) -> None:
    code, review = await secured_api.as_user(
        "bob", "POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": GET_PODS}}
    )
    assert (code, review["status"]) == (201, {"allowed": False})

    code, rules = await secured_api.as_user(
        "bob", "POST", f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    assert code == 201
    assert {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]} in rules[
        "status"
    ]["resourceRules"]
