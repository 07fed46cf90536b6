"""What the default policy gives to whom, as golden tables."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.apiserver.access.bootstrap_policy import default_objects
from watchword.apiserver.access.rbac import RbacAuthorizer, RbacIndex
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.serving.model import RequestInfo, User

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "approve")
SELF = {
    "create selfsubjectaccessreviews",
    "create selfsubjectrulesreviews",
    "create selfsubjectreviews",
}


def _authorizer() -> RbacAuthorizer:
    index = RbacIndex()
    index.follow(Defaults())
    return RbacAuthorizer(index)


class Defaults:
    """Just enough of a registry: the default objects, which never change."""

    def subscribe(self, resource: Any, listener: Any) -> Any:
        for kind, obj in default_objects():
            if kind == resource:
                listener("ADDED", obj)
        return lambda: None

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the index needs nothing but subscribe, not {name}")


def _allowed(user: User) -> set[str]:
    authorizer = _authorizer()
    return {
        f"{verb} {kind.resource.plural}{part}"
        for kind in BUILTINS
        for part in ("", *(f"/{name}" for name in kind.subresources))
        for verb in VERBS
        if authorizer.decide(
            user,
            RequestInfo(
                verb,
                "",
                is_resource=True,
                group=kind.resource.group,
                resource=kind.resource.plural,
                subresource=part.removeprefix("/"),
                namespace="kube-system" if kind.resource.namespaced else "",
            ),
        ).allowed
    }


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param(User("system:anonymous", groups=("system:unauthenticated",)), set(), id="anonymous"),
        pytest.param(User("bob", groups=("system:authenticated",)), SELF, id="any user"),
        pytest.param(
            User("system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated")),
            SELF,
            id="a joining machine, before its group is bound",
        ),
        pytest.param(
            User("system:serviceaccount:a:b", groups=("system:serviceaccounts", "system:authenticated")),
            SELF,
            id="a service account",
        ),
        pytest.param(
            User("system:serviceaccount:kube-system:token-cleaner"),
            {"get secrets", "list secrets", "watch secrets", "delete secrets"}
            | {"create events", "patch events", "update events"},
            id="the token cleaner",
        ),
        pytest.param(
            User("system:serviceaccount:kube-system:bootstrap-signer"),
            {"get secrets", "list secrets", "watch secrets"},
            id="the bootstrap signer",
        ),
    ],
)
def test_default_rights(user: User, expected: set[str]) -> None:
    assert _allowed(user) == expected


def test_superusers_may_do_everything() -> None:
    assert "delete namespaces" in _allowed(User("root", groups=("system:masters",)))
