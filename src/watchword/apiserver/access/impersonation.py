"""Impersonation: the caller must be allowed each part of the impersonated identity."""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from msgspec.structs import replace

from watchword.apiserver.access import chain
from watchword.apiserver.access.rbac import Authorizer, require
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import RequestInfo, User

USER_HEADER = "impersonate-user"
GROUP_HEADER = "impersonate-group"
UID_HEADER = "impersonate-uid"
EXTRA_PREFIX = "impersonate-extra-"


def read_impersonation_headers(headers: Iterable[tuple[str, str]]) -> User | None:
    """Read the Impersonate headers; None when there are none; raise 400 when no user is named."""
    rows = [(name, value) for key, value in headers if (name := key.lower()).startswith("impersonate-")]
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
    requested = User(name, uid, groups, extra)
    if requested == User(""):
        return None
    if not name:
        raise errors.bad_request(f"requested [{' '.join(_references(requested))}] without impersonating a user")
    return requested


def impersonate(user: User, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> User:
    """Return the effective identity: the caller's own, or the impersonated one when all of it is allowed."""
    requested = read_impersonation_headers(headers)
    if requested is None:
        return user
    for question in required_permissions(requested):
        require(authorizer, user, question)
    return impersonated_user(requested)


def required_permissions(requested: User) -> Iterator[RequestInfo]:
    account = chain.split_service_account(requested.name)
    if account is not None:
        namespace, name = account
        yield replace(_permission_check("", "serviceaccounts", name), namespace=namespace)
    else:
        yield _permission_check("", "users", requested.name)
    for group in requested.groups:
        yield _permission_check("", "groups", group)
    for key, values in requested.extra.items():
        for value in values:
            yield replace(_permission_check("authentication.k8s.io", "userextras", value), subresource=key)
    if requested.uid:
        yield _permission_check("authentication.k8s.io", "uids", requested.uid)


def impersonated_user(requested: User) -> User:
    groups = requested.groups
    account = chain.split_service_account(requested.name)
    if account is not None and not groups:
        groups = chain.service_account_groups(account[0])
    if requested.name == chain.ANONYMOUS_NAME:
        if chain.UNAUTHENTICATED not in groups:
            groups = (*groups, chain.UNAUTHENTICATED)
    elif chain.AUTHENTICATED not in groups and chain.UNAUTHENTICATED not in groups:
        groups = (*groups, chain.AUTHENTICATED)
    return replace(requested, groups=groups)


def _references(requested: User) -> Iterator[str]:
    """Yield each impersonated part as kube-apiserver prints an object reference: seven fields, most of them empty."""
    for group in requested.groups:
        yield f"{{Group  {group}    }}"
    for key, values in requested.extra.items():
        for value in values:
            yield f"{{UserExtra  {value}  authentication.k8s.io/v1  {key}}}"
    if requested.uid:
        yield f"{{UID  {requested.uid}  authentication.k8s.io/v1  }}"


def _permission_check(group: str, resource: str, name: str) -> RequestInfo:
    version = "v1" if group else ""
    return RequestInfo("impersonate", is_resource=True, group=group, version=version, resource=resource, name=name)
