"""Whom a caller may act as, and whom they become."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from watchword.apiserver.access.impersonation import impersonate
from watchword.apiserver.access.rbac import AuthorizationDecision
from watchword.apiserver.serving.model import ApiError, RequestInfo, User

CALLER = User("alice", groups=("system:authenticated",))


@dataclass(frozen=True)
class Allowing:
    """Allows to impersonate exactly the listed `group/resource/name` combinations, or everything."""

    listed: frozenset[str] | None = None

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        assert user is CALLER
        assert info.verb == "impersonate"
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        text = ":".join(part for part in (info.group, resource, info.namespace, info.name) if part)
        return AuthorizationDecision(self.listed is None or text in self.listed)


def test_request_without_headers_keeps_the_callers_identity() -> None:
    assert impersonate(CALLER, (("Accept", "*/*"),), Allowing(frozenset())) is CALLER


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([("Impersonate-User", "bob")], User("bob", groups=("system:authenticated",)), id="user"),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")],
            User("bob", groups=("dev", "ops", "system:authenticated")),
            id="groups",
        ),
        pytest.param(
            [("impersonate-user", "bob"), ("Impersonate-Group", "system:unauthenticated")],
            User("bob", groups=("system:unauthenticated",)),
            id="unauthenticated stays so",
        ),
        pytest.param(
            [("Impersonate-User", "system:anonymous")],
            User("system:anonymous", groups=("system:unauthenticated",)),
            id="anonymous",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:a:b")],
            User(
                "system:serviceaccount:a:b",
                groups=("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"),
            ),
            id="service account",
        ),
        pytest.param(
            [
                ("Impersonate-User", "bob"),
                ("Impersonate-Uid", "1-2"),
                ("Impersonate-Extra-Acme.Com%2FTeam", "x"),
                ("Impersonate-Extra-acme.com%2fteam", "y"),
            ],
            User("bob", "1-2", ("system:authenticated",), {"acme.com/team": ("x", "y")}),
            id="uid and extra",
        ),
    ],
)
def test_allowed_caller_becomes_the_impersonated_user(headers: list[tuple[str, str]], expected: User) -> None:
    assert impersonate(CALLER, headers, Allowing()) == expected


@pytest.mark.parametrize(
    ("headers", "allowed", "message"),
    [
        pytest.param(
            [("Impersonate-User", "bob")],
            [],
            'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
            id="user not allowed",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
            ["users:bob"],
            'groups "system:masters" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope",
            id="group not allowed",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:a:b")],
            ["users:system:serviceaccount:a:b"],
            'serviceaccounts "b" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" '
            'in API group "" in the namespace "a"',
            id="account needs its own right",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Extra-scopes", "all")],
            ["users:bob", "authentication.k8s.io:userextras/scopes:few"],
            'userextras.authentication.k8s.io "all" is forbidden: User "alice" cannot impersonate resource '
            '"userextras/scopes" in API group "authentication.k8s.io" at the cluster scope',
            id="extra value not allowed",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Uid", "1")],
            ["users:bob"],
            'uids.authentication.k8s.io "1" is forbidden: User "alice" cannot impersonate resource "uids" '
            'in API group "authentication.k8s.io" at the cluster scope',
            id="uid not allowed",
        ),
    ],
)
def test_each_part_needs_its_right(headers: list[tuple[str, str]], allowed: list[str], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        impersonate(CALLER, headers, Allowing(frozenset(allowed)))

    assert (refusal.value.code, refusal.value.message) == (403, message)


@pytest.mark.parametrize(
    ("header", "printed"),
    [
        ("Impersonate-Group", "{Group  x    }"),
        ("Impersonate-Uid", "{UID  x  authentication.k8s.io/v1  }"),
        ("Impersonate-Extra-a", "{UserExtra  x  authentication.k8s.io/v1  a}"),
    ],
)
def test_parts_without_a_user_are_a_bad_request(header: str, printed: str) -> None:
    with pytest.raises(ApiError) as refusal:
        impersonate(CALLER, [(header, "x")], Allowing())

    assert (refusal.value.code, refusal.value.message) == (
        400,
        f"requested [{printed}] without impersonating a user",
    )
