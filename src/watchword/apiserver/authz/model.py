"""The authorization seam: a question, a decision, and the refusal it becomes."""

from typing import Protocol

from msgspec import Struct

from watchword.api.meta import Resource
from watchword.apiserver import errors
from watchword.apiserver.errors import quote
from watchword.apiserver.model import ApiError, RequestInfo, User

SUPERUSERS = "system:masters"

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class AuthorizationDecision(Struct, frozen=True):
    """Whether it is allowed; without an allowing rule it is not."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides immediately, from memory, on every request."""

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision: ...


def is_superuser(user: User) -> bool:
    return SUPERUSERS in user.groups


def require(authorizer: Authorizer, user: User, info: RequestInfo) -> None:
    """Return when allowed; raise the 403 that kube-apiserver would send otherwise."""
    decision = authorizer.decide(user, info)
    if not decision.allowed:
        raise forbidden_request(user, info, decision.reason)


def forbidden_request(user: User, info: RequestInfo, reason: str = "") -> ApiError:
    message = describe_refusal(user, info)
    if reason:
        message = f"{message}: {reason}"
    resource = Resource(info.group, info.version, info.resource, "") if info.is_resource else None
    return errors.forbidden(resource, info.name, message)


def describe_refusal(user: User, info: RequestInfo) -> str:
    return _describe(user, info).translate(_MARKUP)


def _describe(user: User, info: RequestInfo) -> str:
    if not info.is_resource:
        return f"User {quote(user.name)} cannot {info.verb} path {quote(info.path)}"
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    where = f"in the namespace {quote(info.namespace)}" if info.namespace else "at the cluster scope"
    what = f"{info.verb} resource {quote(resource)} in API group {quote(info.group)}"
    return f"User {quote(user.name)} cannot {what} {where}"
