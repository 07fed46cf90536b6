"""Impersonation: the caller must be allowed each part of the impersonated identity."""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from msgspec import Struct

from watchword.apiserver.access import chain
from watchword.apiserver.access.rbac import Authorizer, require
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import RequestInfo, User

USER_HEADER = "impersonate-user"
GROUP_HEADER = "impersonate-group"
UID_HEADER = "impersonate-uid"
EXTRA_PREFIX = "impersonate-extra-"


class ImpersonationRequest(Struct, frozen=True):
    """The identity that the headers request."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: dict[str, tuple[str, ...]]


def read_impersonation_headers(headers: Iterable[tuple[str, str]]) -> ImpersonationRequest | None:
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
        asked = " ".join(_references(ImpersonationRequest(name, uid, groups, extra)))
        raise errors.bad_request(f"requested [{asked}] without impersonating a user")
    return ImpersonationRequest(name, uid, groups, extra)


def impersonate(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """Return the effective identity: the caller's own, or the impersonated one when all of it is allowed."""
    requested = read_impersonation_headers(headers)
    if requested is None:
        return user
    for question in required_permissions(requested):
        require(authorizer, user, question)
    return impersonated_user(requested)


def required_permissions(requested: ImpersonationRequest) -> Iterator[RequestInfo]:
    account = chain.split_service_account(requested.name)
    if account is not None:
        yield _permission_check("", "serviceaccounts", account[1], namespace=account[0])
    else:
        yield _permission_check("", "users", requested.name)
    for group in requested.groups:
        yield _permission_check("", "groups", group)
    for key, values in requested.extra.items():
        for value in values:
            yield _permission_check("authentication.k8s.io", "userextras", value, subresource=key)
    if requested.uid:
        yield _permission_check("authentication.k8s.io", "uids", requested.uid)


def impersonated_user(requested: ImpersonationRequest) -> User:
    groups = requested.groups
    account = chain.split_service_account(requested.name)
    if account is not None and not groups:
        groups = chain.service_account_groups(account[0])
    if requested.name == chain.ANONYMOUS_NAME:
        if chain.UNAUTHENTICATED not in groups:
            groups = (*groups, chain.UNAUTHENTICATED)
    elif chain.AUTHENTICATED not in groups and chain.UNAUTHENTICATED not in groups:
        groups = (*groups, chain.AUTHENTICATED)
    return User(requested.name, requested.uid, groups, requested.extra)


def _references(requested: ImpersonationRequest) -> Iterator[str]:
    """Yield each impersonated part as kube-apiserver prints an object reference: seven fields, most of them empty."""
    for group in requested.groups:
        yield f"{{Group  {group}    }}"
    for key, values in requested.extra.items():
        for value in values:
            yield f"{{UserExtra  {value}  authentication.k8s.io/v1  {key}}}"
    if requested.uid:
        yield f"{{UID  {requested.uid}  authentication.k8s.io/v1  }}"


def _permission_check(
    group: str, resource: str, name: str, *, namespace: str = "", subresource: str = ""
) -> RequestInfo:
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
