"""Acting as somebody else: each part of the assumed identity must be allowed to the caller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from watchword.apiserver import errors
from watchword.apiserver.authn.model import (
    ANONYMOUS_NAME,
    AUTHENTICATED,
    UNAUTHENTICATED,
    service_account_groups,
    split_service_account,
)
from watchword.apiserver.authz.model import Authorizer, require
from watchword.apiserver.model import RequestInfo, User

USER_HEADER = "impersonate-user"
GROUP_HEADER = "impersonate-group"
UID_HEADER = "impersonate-uid"
EXTRA_PREFIX = "impersonate-extra-"


@dataclass(frozen=True, slots=True)
class Wish:
    """Whom the headers ask to be."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: dict[str, tuple[str, ...]]


def read_wish(headers: Iterable[tuple[str, str]]) -> Wish | None:
    """Read the Impersonate headers; None when there are none; raise 400 when no user is named."""
    rows = [(key.lower(), value) for key, value in headers if key.lower().startswith("impersonate-")]
    if not rows:
        return None
    name = next((value for key, value in rows if key == USER_HEADER), "")
    uid = next((value for key, value in rows if key == UID_HEADER), "")
    groups = tuple(value for key, value in rows if key == GROUP_HEADER)
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in rows:
        if key.startswith(EXTRA_PREFIX):
            field = unquote(key.removeprefix(EXTRA_PREFIX))
            extra[field] = (*extra.get(field, ()), value)
    if not name and not uid and not groups and not extra:
        return None
    if not name:
        asked = " ".join(_references(Wish(name, uid, groups, extra)))
        raise errors.bad_request(f"requested [{asked}] without impersonating a user")
    return Wish(name, uid, groups, extra)


def impersonate(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """Return the identity to act as: the caller's own, or the wished one when all of it is allowed."""
    wish = read_wish(headers)
    if wish is None:
        return user
    for question in questions(wish):
        require(authorizer, user, question)
    return assumed(wish)


def questions(wish: Wish) -> Iterator[RequestInfo]:
    """Yield what the caller must be allowed, one question for each part."""
    account = split_service_account(wish.name)
    if account is not None:
        yield _question("", "serviceaccounts", account[1], namespace=account[0])
    else:
        yield _question("", "users", wish.name)
    for group in wish.groups:
        yield _question("", "groups", group)
    for key, values in wish.extra.items():
        for value in values:
            yield _question("authentication.k8s.io", "userextras", value, subresource=key)
    if wish.uid:
        yield _question("authentication.k8s.io", "uids", wish.uid)


def assumed(wish: Wish) -> User:
    """Return the identity that a granted wish becomes."""
    groups = wish.groups
    account = split_service_account(wish.name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if wish.name == ANONYMOUS_NAME:
        if UNAUTHENTICATED not in groups:
            groups = (*groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(wish.name, wish.uid, groups, wish.extra)


def _references(wish: Wish) -> Iterator[str]:
    """Yield each wished part as upstream prints an object reference: seven fields, most of them empty."""
    for group in wish.groups:
        yield f"{{Group  {group}    }}"
    for key, values in wish.extra.items():
        for value in values:
            yield f"{{UserExtra  {value}  authentication.k8s.io/v1  {key}}}"
    if wish.uid:
        yield f"{{UID  {wish.uid}  authentication.k8s.io/v1  }}"


def _question(group: str, resource: str, name: str, *, namespace: str = "", subresource: str = "") -> RequestInfo:
    return RequestInfo(
        verb="impersonate",
        path="",
        is_resource=True,
        group=group,
        version="v1" if group else "",
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )
