"""The API server as a function: one request in, one response or event stream out."""

import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from random import randbytes
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.http import Request, Response
from watchword.api.limits import MAX_BODY_BYTES
from watchword.apiserver.access.chain import ANONYMOUS
from watchword.apiserver.access.impersonation import impersonate
from watchword.apiserver.access.rbac import Authorizer, require
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import (
    ApiError,
    Authenticate,
    Handler,
    HandlerRequest,
    Now,
    RequestInfo,
    ResourceKind,
    User,
)
from watchword.apiserver.serving.negotiation import NOT_FOUND, error_response, warning_headers
from watchword.apiserver.serving.object_storage import KindTable
from watchword.apiserver.serving.requestinfo import read_request_info
from watchword.apiserver.serving.resources import ResourceServer
from watchword.apiserver.serving.write import make_uuid

if TYPE_CHECKING:
    from watchword.apiserver.listener import RequestRateLimiter

log = logging.getLogger(__name__)  # structlog renders it where a program set that up; importing it costs start-up

ResourceRoute = tuple[str, str, str]
"""Group, resource and subresource (empty for the resource itself)."""
_LONGEST_DURATION = 64  # a longer one would only cost time in the regular expression
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+)", re.ASCII)  # as Go writes it


class CompletedRequest(Struct, frozen=True):
    """One handled request, for audit and metrics."""

    request: HandlerRequest
    response: Response
    audit_id: str
    received: datetime
    authenticated: User | None = None  # differs from the request's user under impersonation


Observe = Callable[[CompletedRequest], None]


class ApiServer(Struct, frozen=True):
    """Handles every request; no client input makes it raise."""

    authenticate: Authenticate
    authorizer: Authorizer
    kinds: KindTable
    resources: ResourceServer
    handlers: Mapping[ResourceRoute, Handler] = field(default_factory=dict)  # subresources, reviews
    paths: Mapping[str, Handler] = field(default_factory=dict)  # exact, or a prefix when it ends with "/"
    # It counts a request only after its credential was checked, so that no client uses up another's share.
    limit: "RequestRateLimiter | None" = None
    observe: Observe | None = None
    now: Now = lambda: datetime.now(UTC)

    async def handle(self, request: Request) -> Response:
        asked = HandlerRequest(
            read_request_info(request.method, request.path, request.query),
            request.method,
            request.query,
            request.headers,
            request.body,
            request.peer,
        )
        received, user = self.now(), None
        try:
            if len(request.body) > MAX_BODY_BYTES:
                raise errors.too_large()
            user = await self._authenticated(asked)
            asked = replace(asked, user=impersonate(user, asked.headers, self.authorizer))
            require(self.authorizer, asked.user, asked.info)
            answer = await self._route(asked)
        except ApiError as refusal:
            answer = error_response(asked, refusal)
        except MemoryError:
            log.error("out of memory: %s %s", request.method, request.path.encode("ascii", "replace"))  # noqa: TRY400
            answer = error_response(asked, errors.out_of_memory())
        except Exception:
            log.exception("request failed: %s %s", request.method, request.path.encode("ascii", "replace"))
            answer = error_response(asked, errors.internal("the server met an error of its own; its log says more"))
        audit_id = self._audit_id(request)
        if self.observe is not None:
            self.observe(CompletedRequest(asked, answer, audit_id, received, user))
        if request.method == "HEAD":
            answer = replace(answer, body=b"")
        known = user.name if user is not None and user.name != ANONYMOUS.name else ""
        headers = (*answer.headers, ("Audit-Id", audit_id))
        if not answer.header("Cache-Control"):
            headers = (*headers, ("Cache-Control", "no-cache, private"))
        return replace(answer, headers=headers, user=known)

    async def _authenticated(self, asked: HandlerRequest) -> User:
        try:
            user = await self.authenticate(asked) or ANONYMOUS
        except ApiError:
            if self.limit is not None:
                self.limit.failed(asked)
            raise
        if self.limit is not None:
            self.limit.known(asked, user)
        return user

    async def _route(self, asked: HandlerRequest) -> Response:
        info = asked.info
        if not info.is_resource:
            handler = self._path_handler(info.path)
            return await handler(asked) if handler is not None else NOT_FOUND
        require_timeout(asked.parameter("timeout"))
        kind = self.kinds.find(info.group, info.version, info.resource)
        if kind is None:
            if self.kinds.has_builtin_group(info.group):
                raise errors.resource_not_found()
            return NOT_FOUND
        if kind.custom and info.namespace and not kind.resource.namespaced:
            return NOT_FOUND
        if not kind.deprecation:
            return await self._serve(asked, kind)
        try:
            answer = await self._serve(asked, kind)
        except ApiError as refusal:
            answer = error_response(asked, refusal)
        return replace(answer, headers=(*answer.headers, *warning_headers((kind.deprecation,))))

    async def _serve(self, asked: HandlerRequest, kind: ResourceKind) -> Response:
        info = asked.info
        require_route(kind, info)
        if asked.method == "HEAD":
            raise errors.verb_not_allowed()
        special = self.handlers.get((info.group, info.resource, info.subresource))
        if special is not None:
            return await special(asked)
        if not kind.stored or (info.subresource and info.subresource not in kind.subresources):
            raise errors.not_found(kind.resource, info.name) if kind.custom else errors.resource_not_found()
        return await self.resources.serve(asked, kind)

    def _path_handler(self, path: str) -> Handler | None:
        paths = self.paths
        exact = paths.get(path) or paths.get(path.rstrip("/"))
        if exact is not None:
            return exact
        prefixes = [prefix for prefix in paths if prefix.endswith("/") and path.startswith(prefix)]
        return paths[max(prefixes, key=len)] if prefixes else None

    def _audit_id(self, request: Request) -> str:
        said = request.header("Audit-Id")
        if said and len(said) <= 64 and said.isascii() and said.isprintable():
            return said
        return make_uuid(randbytes)  # no secret: a client may choose it


def require_route(kind: ResourceKind, info: RequestInfo) -> None:
    is_namespace = info.resource == "namespaces" and not info.group
    if not kind.resource.namespaced:
        if info.namespace and not is_namespace:
            raise errors.resource_not_found()
    elif not info.namespace and info.verb not in {"list", "watch"}:
        raise errors.resource_not_found() if info.name else errors.verb_not_allowed()
    if info.verb == "create" and info.name and not info.subresource:
        raise errors.verb_not_allowed()
    if info.verb in {"update", "patch"} and not info.name:
        raise errors.verb_not_allowed()


def require_timeout(text: str) -> None:
    """Refuse with 400 a time limit that cannot be read; limits of our own are shorter than any sensible one."""
    if len(text) > _LONGEST_DURATION or (text and not _DURATION.fullmatch(text)):
        message = f"invalid timeout specified in the request URL - time: invalid duration {errors.quote(text)}"
        raise errors.bad_request(message)
