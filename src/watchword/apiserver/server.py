"""The API server as a function: one request in, one answer or event stream out."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from watchword.api.http import Request, Response
from watchword.apiserver.authn.impersonation import impersonate
from watchword.apiserver.authn.model import ANONYMOUS
from watchword.apiserver.authz.model import Authorizer, require
from watchword.apiserver.errors import MAX_BODY_BYTES, internal, too_large
from watchword.apiserver.model import ApiError, Authenticate, Handler, HandlerRequest, ResourceKind, User
from watchword.apiserver.negotiation import error_response
from watchword.apiserver.registry.kind_table import KindTable
from watchword.apiserver.requestinfo import read_request
from watchword.apiserver.serving.resources import ResourceServer

log = structlog.get_logger(__name__)

ResourcePlace = tuple[str, str, str]
"""Group, resource and subresource (empty for the resource itself)."""

Admitted = Callable[[HandlerRequest, User | None], None]
"""Lets a request in or raises 429; asked before (user None) and after authentication."""

Observe = Callable[[HandlerRequest, Response], None]
"""Takes note of an answered request: audit, metrics."""


@dataclass(frozen=True)
class Parts:
    """What an API server is made of."""

    authenticate: Authenticate
    authorizer: Authorizer
    kinds: KindTable
    resources: ResourceServer
    handlers: Mapping[ResourcePlace, Handler] = field(default_factory=dict)  # subresources, reviews
    paths: Mapping[str, Handler] = field(default_factory=dict)  # exact, or a prefix when it ends with "/"
    limit: Admitted = lambda _request, _user: None
    observe: Observe = lambda _request, _response: None
    new_audit_id: Callable[[], str] = lambda: str(uuid.uuid4())


class ApiServer:
    """Answers every request; nothing that a client sends makes it raise."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        asked = HandlerRequest(
            read_request(request.method, request.path, request.query),
            request.method,
            request.query,
            request.headers,
            request.body,
            request.peer,
        )
        try:
            if len(request.body) > MAX_BODY_BYTES:
                raise too_large()
            asked = await self._identified(asked)
            answer = await self._route(asked)
        except ApiError as refusal:
            answer = error_response(asked, refusal)
        except Exception:
            log.exception("request failed", method=request.method, path=request.path)
            answer = error_response(asked, internal("the server met an error of its own; its log says more"))
        self._parts.observe(asked, answer)
        return self._dressed(request, answer)

    async def _identified(self, asked: HandlerRequest) -> HandlerRequest:
        parts = self._parts
        parts.limit(asked, None)
        user = await parts.authenticate(asked) or ANONYMOUS
        acting = impersonate(user, asked.headers, parts.authorizer)
        asked = replace(asked, user=acting)
        parts.limit(asked, user)
        require(parts.authorizer, acting, asked.info)
        return asked

    async def _route(self, asked: HandlerRequest) -> Response:
        info, parts = asked.info, self._parts
        if not info.is_resource:
            handler = self._path_handler(info.path)
            return await handler(asked) if handler is not None else NOT_FOUND
        kind = parts.kinds.find(info.group, info.version, info.resource)
        if kind is None or not _is_well_placed(kind, asked):
            return NOT_FOUND
        special = parts.handlers.get((info.group, info.resource, info.subresource))
        if special is not None:
            return await special(asked)
        if not kind.stored or (info.subresource and info.subresource not in kind.subresources):
            return NOT_FOUND
        return await parts.resources.serve(asked, kind)

    def _path_handler(self, path: str) -> Handler | None:
        paths = self._parts.paths
        exact = paths.get(path) or paths.get(path.rstrip("/"))
        if exact is not None:
            return exact
        prefixes = [prefix for prefix in paths if prefix.endswith("/") and path.startswith(prefix)]
        return paths[max(prefixes, key=len)] if prefixes else None

    def _dressed(self, request: Request, answer: Response) -> Response:
        audit_id = request.header("Audit-Id")
        if not audit_id or len(audit_id) > 64 or not audit_id.isprintable():
            audit_id = self._parts.new_audit_id()
        headers = [("Audit-Id", audit_id)]
        if not answer.header("Cache-Control"):
            headers.append(("Cache-Control", "no-cache, private"))
        return replace(answer, headers=(*answer.headers, *headers))


NOT_FOUND = Response(
    404,
    (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")),
    b"404 page not found\n",
)


def _is_well_placed(kind: ResourceKind, asked: HandlerRequest) -> bool:
    """Whether namespaced kinds are asked for in a namespace, and others without one."""
    info = asked.info
    if not kind.resource.namespaced:
        return not info.namespace or (info.resource == "namespaces" and not info.group)
    return bool(info.namespace) or info.verb in {"list", "watch"}


Handle = Callable[[Request], Awaitable[Response]]
