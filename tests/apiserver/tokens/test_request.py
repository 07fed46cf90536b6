"""TokenRequest: lifetimes, audiences and what a token may be bound to."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.pki.jwt import read_unverified_claims, split_token

URL = "/api/v1/namespaces/default/serviceaccounts/default/token"
POD = {"apiVersion": "v1", "kind": "Pod", "name": "p"}


async def _pod(secured_api: Any, **spec: Any) -> Any:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return (await secured_api.call("POST", "/api/v1/namespaces/default/pods", body))[1]


async def test_token_has_subject_audience_and_expiry(secured_api: Any) -> None:
    _, account = await secured_api.call("GET", "/api/v1/namespaces/default/serviceaccounts/default")
    now = int(secured_api.clock.now().timestamp())

    code, reply = await secured_api.call("POST", URL, {"spec": {"audiences": ["a", "b"], "expirationSeconds": 600}})

    claims = read_unverified_claims(reply["status"]["token"])
    assert (code, len(claims.pop("jti"))) == (201, 36)
    assert claims == {
        "aud": ["a", "b"],
        "exp": now + 600,
        "iat": now,
        "iss": "https://issuer.test",
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "default", "uid": account["metadata"]["uid"]},
        },
        "nbf": now,
        "sub": "system:serviceaccount:default:default",
    }
    assert split_token(reply["status"]["token"])[0].keys() == {"alg", "kid"}


async def test_defaults_are_an_hour_and_this_plane(secured_api: Any) -> None:
    _, reply = await secured_api.call("POST", URL, {})

    assert reply["spec"] == {
        "audiences": ["https://issuer.test"],
        "expirationSeconds": 3600,
        "boundObjectRef": None,
    }


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        pytest.param(
            {"spec": {"expirationSeconds": 599}},
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
            "may not specify a duration less than 10 minutes",
            id="too short",
        ),
        pytest.param(
            {"spec": {"expirationSeconds": 2**32 + 1}},
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: '
            "may not specify a duration larger than 2^32 seconds",
            id="too long",
        ),
        pytest.param(
            {"metadata": {"name": "x"}},
            422,
            'TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid value: "x": '
            "must match the service account name if specified",
            id="another name",
        ),
        pytest.param(
            {"metadata": {"namespace": "x"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            {"spec": {"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
            id="a kind that nothing is bound to",
        ),
        pytest.param({"spec": {"boundObjectRef": POD}}, 404, 'pods "p" not found', id="a pod that is not there"),
    ],
)
async def test_request_is_refused(secured_api: Any, body: Any, code: int, message: str) -> None:
    assert await secured_api.call("POST", URL, body) == (code, _matching(message))


async def test_uid_of_an_earlier_account_is_a_conflict(secured_api: Any) -> None:
    code, status = await secured_api.call("POST", URL, {"metadata": {"uid": "u"}})

    assert code == 409
    assert status["message"].startswith(
        'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "default": the UID in the token'
    )


async def test_pod_bound_token_carries_pod_and_node(secured_api: Any) -> None:
    pod = await _pod(secured_api, nodeName="n")

    _, reply = await secured_api.call("POST", URL, {"spec": {"boundObjectRef": {**POD, "uid": pod["metadata"]["uid"]}}})

    private = read_unverified_claims(reply["status"]["token"])["kubernetes.io"]
    assert private["pod"] == {"name": "p", "uid": pod["metadata"]["uid"]}
    assert private["node"] == {"name": "n"}  # the Node object is gone or was never there


async def test_token_of_a_projected_volume_gets_an_extended_lifetime_and_a_warning_time(secured_api: Any) -> None:
    await _pod(secured_api)
    now = int(secured_api.clock.now().timestamp())

    _, reply = await secured_api.call("POST", URL, {"spec": {"expirationSeconds": 3607, "boundObjectRef": POD}})

    claims = read_unverified_claims(reply["status"]["token"])
    assert (claims["exp"], claims["kubernetes.io"]["warnafter"]) == (now + 31536000, now + 3607)
    assert reply["spec"]["expirationSeconds"] == 3607


async def test_pod_of_another_account_and_recreated_pods_are_refused(secured_api: Any) -> None:
    await secured_api.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    await _pod(secured_api)

    code, status = await secured_api.call("POST", URL.replace("/default/token", "/robot/token"), _bound())
    assert (code, status["reason"]) == (400, "BadRequest")
    code, status = await secured_api.call("POST", URL, _bound(uid="earlier"))
    assert (code, status["reason"]) == (409, "Conflict")


class _matching:  # noqa: N801 - reads as a word in the assertion
    """Equal to any Status with that message."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and other.get("message") == self.message

    def __hash__(self) -> int:
        return hash(self.message)

    def __repr__(self) -> str:
        return self.message


def _bound(**ref: Any) -> Any:
    return {"spec": {"boundObjectRef": {**POD, **ref}}}
